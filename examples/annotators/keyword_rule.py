"""A rule as annotator: a message with one of these words is the second class, any other the first.

parbals label spam --with "python keyword_rule.py win prize urgent" --name keywords
"""

import json
import sys

words = [word.casefold() for word in sys.argv[1:]]
for line in sys.stdin:
    item = json.loads(line)
    text = " ".join(str(value) for value in item["content"].values()).casefold()
    found = [word for word in words if word in text]
    reply = {"id": item["id"], "label": item["classes"][1 if found else 0]}
    if found:
        reply["comment"] = "contains " + ", ".join(found)
    print(json.dumps(reply), flush=True)  # noqa: T201 - standard output is how an annotator answers
