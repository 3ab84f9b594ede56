"""Common parts of the notebook's live views: the inspector and the timeline."""
