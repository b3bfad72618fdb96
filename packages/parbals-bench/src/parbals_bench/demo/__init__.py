"""The demonstration: three ways of choosing what to label, side by side on real text messages."""
