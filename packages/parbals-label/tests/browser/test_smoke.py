"""The page works at all: somebody opens it, presses a key, and the label is on disk."""


def test_a_key_puts_a_label_on_disk_and_shows_the_next_item(serve, person):
    server = serve("text")
    ada = person(server, "Ada")
    first = ada.label("2")
    second = ada.label("1")
    ada.saved()
    labels = {answer.item_id: answer.label for answer in server.answers("Ada")}
    assert labels == {first: "spam", second: "ham"}
