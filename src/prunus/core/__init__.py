"""What can be cut, and what a cut is: no framework in here."""
