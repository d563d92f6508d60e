"""How each framework does what the core asks for: one folder a framework."""
