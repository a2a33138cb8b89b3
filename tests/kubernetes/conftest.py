"""The modules beside these tests."""
