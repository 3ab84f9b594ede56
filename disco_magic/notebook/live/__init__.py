"""What the notebook's live views have in common: the inspector's and the timeline's."""
