"""The forms in which ``ykactor simulate --compare`` shows a comparison."""
