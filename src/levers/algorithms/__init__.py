"""Small state machines that decide what to run next. They never see a world."""
