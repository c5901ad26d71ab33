"""What sets two texts apart that are about the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.text.wording import differ

DIFFERENT = [
    ("The gate code is 3380", "The gate code is 3381"),
    ("The ferry leaves at 7:30", "The ferry leaves at 8:30"),
    ("She stays two nights", "She stays three nights"),
    ("The fair is on 9 March", "The fair is on 9 April"),
    ("Bins go out on Monday", "Bins go out on Thursday"),
    ("Pump is on relay 4b", "Pump is on relay 4c"),
    ("Mireille takes oat milk", "Mireille takes no oat milk"),
    ("The door locks by itself", "The door doesn't lock by itself"),
    ("Anna takes oat milk", "Hanna takes oat milk"),
    ("Ballast survey done", "Ballast survey report filed"),
    ("The key is with Petra", "The key is with Paula"),
    ("The key is with Mia", "The key is with Sue"),
    ("Mia likes oat milk", "Sue likes oat milk"),
    ("Ask Will about the rent", "Ask Al about the rent"),
    ("We use the API of Globex", "We use the API of Initech"),
    ("Die Pumpe läuft nachts", "Die Pumpe läuft nachts nicht"),
    ("Frau Lindner hat zwei Schlüssel", "Frau Lindner hat drei Schlüssel"),
    ("Der Termin ist am Montag", "Der Termin ist am Dienstag"),
    ("Il prend du lait", "Il ne prend pas de lait"),
    ("La réunion est lundi", "La réunion est mardi"),
    ("Toma leche con el café", "No toma leche con el café"),
    ("La visita es en marzo", "La visita es en mayo"),
    ("Ela come carne", "Ela não come carne"),
    ("Ela fica cinco dias", "Ela fica seis dias"),
    ("Luca mangia formaggio", "Luca non mangia formaggio"),
    ("La chiave è da Paolo", "La chiave è da Chiara"),
    ("彼女は牛乳を飲みます", "彼女は牛乳を飲みません"),
    ("会議は月曜日です", "会議は火曜日です"),
    ("田中さんが鍵を持っています", "佐藤さんが鍵を持っています"),
    ("張り紙はマリアのもの", "張り紙はソフィアのもの"),
    ("她喝牛奶", "她不喝牛奶"),
    ("张伟喜欢咖啡", "李娜喜欢咖啡"),
    ("会议在星期二", "会议在星期四"),
    ("그는 우유를 마신다", "그는 우유를 마시지 않는다"),
    ("회의는 월요일이다", "회의는 금요일이다"),
    ("김민수가 열쇠를 가지고 있다", "박지훈이 열쇠를 가지고 있다"),
]

ALIKE = [
    ("Mireille takes oat milk in her coffee", "In her coffee Mireille takes oat milk"),
    ("Mireille takes oat milk in her coffee", "For coffee, Mireille always has oat milk"),
    ("Mireille's coffee is with oat milk", "Mireille likes oat milk in her coffee"),
    ("The ferry leaves at 07:30", "At 7:30 the ferry leaves"),
    ("Rent is 1,200 euros", "The rent: 1200 euros"),
    ("She stays two nights", "She stays 2 nights"),
    ("Petras Auto ist rot", "Das Auto von Petra ist rot"),
    ("L'atelier de Pieter ouvre tôt", "Tôt ouvre l'atelier de Pieter"),
    ("The harbour café is closed", "Closed is the harbour café"),
    ("会議は月曜日です", "月曜日に会議があります"),
    ("田中さんが鍵を持っています", "鍵は田中さんが持っている"),
    ("她喝燕麦奶", "她的咖啡里加燕麦奶"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_numbers_dates_negation_and_names_set_texts_apart(one: str, other: str) -> None:
    assert differ(one, other)
    assert differ(other, one)


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_other_words_for_the_same_do_not(one: str, other: str) -> None:
    assert not differ(one, other)
    assert not differ(other, one)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_are_compared_the_same_way_round_and_back(one: str, other: str) -> None:
    assert differ(one, other) == differ(other, one)
    assert not differ(one, one)
