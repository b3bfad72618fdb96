"""Texts in other languages are recognised, and the project says what its encoder understands."""

import pytest
from parbals_label.project.create import Roles, create_project
from parbals_label.project.language import language_note, other_language

TEXTS = {
    "German": [
        "Das Paket ist heute nicht angekommen",
        "Ich möchte mein Geld zurück und eine Antwort",
    ],
    "French": ["Le colis n'est pas arrivé", "Je voudrais un remboursement pour cette commande"],
    "Spanish": ["El paquete no ha llegado", "Quiero que me devuelvan el dinero por las molestias"],
    "Italian": ["Il pacco non è arrivato", "Vorrei che mi rimborsaste anche la spedizione"],
    "Portuguese": ["O pacote não chegou", "Eu quero o dinheiro de volta para a minha conta"],
    "Dutch": ["Het pakket is niet aangekomen", "Ik wil mijn geld terug voor deze bestelling"],
    "Polish": ["Paczka nie dotarła do mnie", "To jest nie to, co zamówiłem, i czekam na zwrot"],
    "Swedish": ["Paketet har inte kommit till mig", "Jag vill att det blir bra"],
    "Turkish": ["Bu paket gelmedi ve bir cevap yok", "Ben çok bekledim ama ne var ne yok"],
    "Chinese or Japanese": ["包裹还没有到", "我想退款"],
    "Japanese": ["まだとどいていません", "おかねをかえしてください"],
    "Russian or another language in Cyrillic script": ["Посылка не пришла"],
}
ENGLISH = [
    ["Free entry in 2 a wkly comp to win FA Cup final tkts", "Ok lar... Joking wif u oni..."],
    ["How did serfdom develop in and then leave Russia ?", "What films featured Popeye Doyle ?"],
    ["red", "green", "blue"],
    ["die hard", "Los Angeles", "Le Mans", "de facto"],
    ["AB-120", "77812", "::"],
    [""],
]


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_recognised(language):
    assert other_language(TEXTS[language]) == language


@pytest.mark.parametrize("texts", ENGLISH)
def test_english_and_names_are_not_taken_for_others(texts):
    assert other_language(texts) is None


def test_a_project_of_german_texts_says_that_its_encoder_is_english(tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text(
        "text\n" + "\n".join(f"{text} {i}" for i in range(5) for text in TEXTS["German"])
    )
    project = create_project(
        tmp_path / "p", table, Roles(text=("text",)), ["a", "b"], {}, encoder="words"
    )
    note = next(note for note in project.notes if "German" in note)
    assert f"parbals embed {tmp_path / 'p'} --encoder hf:" in note
    assert language_note("hf:some/model", TEXTS["German"]) is None
