"""What a command line can name: models, and a small task to show things on."""
