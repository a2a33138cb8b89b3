"""Sessions of resource managers, operators and followers over websockets. Start reading in ``websocket.py``."""
