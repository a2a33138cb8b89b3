"""How fast the scheduler is: typed requests in, decisions and encoded events out, through the actors."""
