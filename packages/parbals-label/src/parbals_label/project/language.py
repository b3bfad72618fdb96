"""Recognise texts that are not English, which the built-in encoders do not understand.

The script of the letters decides where most are not Latin. Otherwise frequent function words are
counted, of each language those that are no words of English or of several of the others.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from parbals.installing import install_command

__all__ = ["ENGLISH_ENCODERS", "language_note", "other_language"]

ENGLISH_ENCODERS = ("words", "sentences", "sentences-int8", "bert-base-uncased")
_MULTILINGUAL = "hf:intfloat/multilingual-e5-small"
_WORDS = {
    "English": "the and of to is you that it for with this have are not what my your but we they",
    "German": "der die und das nicht ist ich ein eine mit auf für zu den dem wir sie auch wird",
    "French": "le les des est une pour pas dans vous nous je qui sur avec ce cette mais du et",
    "Spanish": "el los las una por con para del que es pero más muy está lo su como yo mi",
    "Italian": "il gli di che è della per non sono una con anche ma questo più nel mi ho",
    "Portuguese": "o os uma não com para da em que é mas muito você dos na ao isso eu",
    "Dutch": "het een en van niet dat ik je op voor met zijn ook maar naar wat deze heb bij",
    "Polish": "nie się na jest że jak ale tak czy dla jestem przez było mnie już może są",
    "Swedish": "och att det är inte jag som en på för med har till av ett den var vi",
    "Turkish": "ve bir bu için çok da de ne ama ben mi değil gibi daha var yok olarak ile",
}
_FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_SCRIPTS = {
    "CYRILLIC": "Russian or another language in Cyrillic script",
    "CJK": "Chinese or Japanese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "ARABIC": "Arabic or another language in Arabic script",
    "HEBREW": "Hebrew",
    "GREEK": "Greek",
    "DEVANAGARI": "Hindi or another language in Devanagari",
    "THAI": "Thai",
}
_MIN_SHARE = 0.08
"""Function words of a language among all words: 0.2 and more in its running texts."""
_MIN_RATIO = 2.0
"""How many times as many function words as of English."""
_MIN_WORDS = 3
"""Different function words: names of films and towns have one or two."""


def other_language(texts: Iterable[str]) -> str | None:
    """The language of most texts if it is recognised and is not English.

    >>> other_language(["Das Paket ist nicht da", "Ich bin mit der Größe zufrieden"])
    'German'
    >>> other_language(["The parcel is not here", "I am happy with the size"]) is None
    True
    """
    all_texts = " ".join(texts)
    scripts = Counter(
        unicodedata.name(letter, "").partition(" ")[0] for letter in all_texts if letter.isalpha()
    )
    if scripts and scripts["LATIN"] < scripts.total() / 2:
        return next((_SCRIPTS[name] for name, _ in scripts.most_common() if name in _SCRIPTS), None)
    words = Counter(re.findall(r"[^\W\d_]+", all_texts.lower()))
    counts = {
        language: sum(words[word] for word in function_words)
        for language, function_words in _FUNCTION_WORDS.items()
    }
    n_english = counts.pop("English")
    language = max(counts, key=lambda name: counts[name])
    is_frequent = counts[language] > max(_MIN_RATIO * n_english, _MIN_SHARE * words.total())
    has_several = len(_FUNCTION_WORDS[language] & words.keys()) >= _MIN_WORDS
    return language if is_frequent and has_several else None


def language_note(encoder: str, texts: Iterable[str], folder: Path = Path("DIR")) -> str | None:
    """A note for a project whose encoder does not know the language of its texts."""
    if encoder not in ENGLISH_ENCODERS:
        return None
    language = other_language(texts)
    if language is None:
        return None
    return (
        f"The texts look {language}, and the encoder {encoder} knows English only. A multilingual "
        f"one needs fewer labels: {install_command('parbals[encoders]')}, then `parbals embed "
        f"{folder} --encoder {_MULTILINGUAL}`."
    )
