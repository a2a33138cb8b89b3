"""Authentication and authorization: the identity of a connection, its permissions and its view (SE-1 to SE-48, SE-80 to SE-87).

    the access file -> file.py -> Access;  Access and Credentials -> access.py -> Identity
    Identity and a message -> permissions.py;  Identity -> view.py -> View, which an event or a state passes

Plain functions on plain data: no trio, no clock, no sockets. Only ``tokens`` touches the disk. Stands above ``wire``, whose
messages the table of permissions names and whose reader of YAML the access file has, and below ``surfaces``.
"""
