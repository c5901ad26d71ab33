"""Word lists in lower case for `worker.text.wording`.

Ambiguous words, such as articles that also mean "one", are left out.
"""

WORDS_CACHED = 8_192
"""Words of which a process caches what it computed; every number in a message is a new one."""

_NEGATIONS = """
no not never none nothing nobody neither nor cannot without
ne n pas jamais aucun aucune rien sans
nicht kein keine keinen keinem keiner keines nie niemals nichts niemand ohne weder
nunca jamás tampoco nadie nada ningún ninguno ninguna sin
não jamais ninguém nenhum nenhuma nem sem
non mai nessuno nessuna nessun niente nulla senza né
"""
NEGATIONS = frozenset(_NEGATIONS.split())

NEGATION_PARTS = (
    *("ない", "なかった", "なく", "ません", "ず、", "ずに", "無", "不", "未", "非", "禁止"),
    *("没", "沒", "无", "別", "别", "勿", "莫"),
    *("않", "없", "아니", "아닌", "안 ", "못", "금지"),
)
"""Looked for inside texts of Japanese, Chinese and Korean."""

_NUMBERS = {
    "0": "zero null zéro cero",
    "2": "two both twice deux zwei beide zweimal dos ambos dois duas",
    "3": "three thrice trois drei tres três tre",
    "4": "four quatre vier cuatro quatro quattro",
    "5": "five cinq fünf cinco cinque",
    "6": "six sechs seis sei",
    "7": "seven sept sieben siete sete sette",
    "8": "eight huit acht ocho oito otto",
    "9": "nine neuf neun nueve nove",
    "10": "ten dix zehn diez dez dieci",
    "11": "eleven onze elf undici",
    "12": "twelve dozen douze zwölf dutzend doce doze dodici",
    "13": "thirteen treize dreizehn trece treze tredici",
    "14": "fourteen quatorze vierzehn catorce quattordici",
    "15": "fifteen quinze fünfzehn quince quindici",
    "16": "sixteen sechzehn dieciséis dezesseis sedici",
    "17": "seventeen siebzehn diecisiete dezessete diciassette",
    "18": "eighteen achtzehn dieciocho dezoito diciotto",
    "19": "nineteen neunzehn diecinueve dezenove diciannove",
    "20": "twenty vingt zwanzig veinte vinte venti",
    "30": "thirty trente dreißig dreissig treinta trinta trenta",
    "40": "forty quarante vierzig cuarenta quarenta quaranta",
    "50": "fifty cinquante fünfzig cincuenta cinquenta cinquanta",
    "60": "sixty soixante sechzig sesenta sessenta sessanta",
    "70": "seventy siebzig setenta settanta",
    "80": "eighty achtzig ochenta oitenta ottanta",
    "90": "ninety neunzig noventa novanta",
    "100": "hundred cent hundert cien ciento cem cento",
    "1000": "thousand mille tausend mil",
    "1000000": "million millions millionen millón milhão milione",
    "half": "half halb halbe demi demie meia mezzo mezza",
    "first": "first premier première erste ersten erster primero primera primeiro primeira primo",
    "second": "second deuxième zweite zweiten zweiter segundo segunda secondo seconda",
    "third": "third troisième dritte dritten dritter tercero tercera terceiro terceira terzo terza",
    "d1": "monday mondays lundi montag montags lunes lunedì",
    "d2": "tuesday tuesdays mardi dienstag dienstags martes martedì",
    "d3": "wednesday wednesdays mercredi mittwoch mittwochs miércoles mercoledì",
    "d4": "thursday thursdays jeudi donnerstag donnerstags jueves giovedì",
    "d5": "friday fridays vendredi freitag freitags viernes venerdì",
    "d6": "saturday saturdays samedi samstag samstags sonnabend sábado sabato",
    "d7": "sunday sundays dimanche sonntag sonntags domingo domenica",
    "m1": "january janvier januar jänner enero janeiro gennaio",
    "m2": "february février februar febrero fevereiro febbraio",
    "m3": "march mars märz marzo março",
    "m4": "april avril abril aprile",
    "m5": "mai mayo maio maggio",
    "m6": "june juin juni junio junho giugno",
    "m7": "july juillet juli julio julho luglio",
    "m8": "august août agosto",
    "m9": "september septembre septiembre setembro settembre",
    "m10": "october octobre oktober octubre outubro ottobre",
    "m11": "november novembre noviembre novembro",
    "m12": "december décembre dezember diciembre dezembro dicembre",
    "today": "today aujourd heute hoy hoje oggi",
    "tomorrow": "tomorrow demain mañana amanhã domani",
    "yesterday": "yesterday hier gestern ayer ontem ieri",
}
NUMBERS = {word: value for value, words in _NUMBERS.items() for word in words.split()}
"""Values of words for numbers and dates."""

_NUMBER_PARTS = {
    "1": "하나 한_",
    "2": "二 两 兩 두_ 둘",
    "3": "三 세_ 셋",
    "4": "四 네_ 넷",
    "5": "五 다섯",
    "6": "六 여섯",
    "7": "七 일곱",
    "8": "八 여덟",
    "9": "九 아홉",
    "10": "十 열_",
    "20": "스무",
    "100": "百 백",
    "1000": "千 천",
    "10000": "万 萬 만_",
    "100000000": "億 亿 억",
    "half": "半",
    "today": "今日 今天 오늘",
    "tomorrow": "明日 明天 내일",
    "yesterday": "昨日 昨天 어제",
}
NUMBER_PARTS = {part.replace("_", " "): value for value, parts in _NUMBER_PARTS.items() for part in parts.split()}
"""Looked for inside texts of Japanese, Chinese and Korean; `_` stands for a space."""

_WEEKDAYS = (
    ("d1", "月曜 周一 週一 星期一 礼拜一 월요일"),
    ("d2", "火曜 周二 週二 星期二 礼拜二 화요일"),
    ("d3", "水曜 周三 週三 星期三 礼拜三 수요일"),
    ("d4", "木曜 周四 週四 星期四 礼拜四 목요일"),
    ("d5", "金曜 周五 週五 星期五 礼拜五 금요일"),
    ("d6", "土曜 周六 週六 星期六 礼拜六 토요일"),
    ("d7", "日曜 周日 周天 週日 星期日 星期天 礼拜天 일요일"),
)
WEEKDAY_PARTS = {part: day for day, parts in _WEEKDAYS for part in parts.split()}

_FUNCTION_WORDS = """
a an the this that these those i you he she it we they me him us them my your his her its our their mine yours
and or but if when while because so as of in on at by for with from to into about after before since until during
is are was were be been has have had do does did will would can could may might must shall should there here
what which who whom whose where why how all any some each every one also only just still then than now once
always often usually never please note remember yes ok
le la les l un une des du de d au aux ce cet cette ces il elle ils elles on nous vous je tu me te se son sa ses mon ma
mes ton ta tes notre nos votre vos leur leurs et ou mais donc car si quand comme que qui dont où dans sur sous pour par
avec chez vers est sont était a ont avait fait y en toujours souvent
der die das den dem des ein eine einen einem einer eines und oder aber denn wenn als wie dass weil ob zu zum zur im in
am an auf aus bei mit nach von vor für über unter gegen um bis seit durch er sie es wir ihr ich du mein meine sein
seine ihre ihren unser euer dein ist sind war waren hat haben hatte wird werden wurde kann muss soll darf auch nur
noch schon immer oft hier dort was wer wo wann warum bitte
el los las lo una unos unas del al y o u pero porque cuando como que quien donde en con por para desde hasta sobre entre
su sus mi mis tu tus nuestro nuestra se le les me te nos es son era está están fue ha han había hay muy siempre
o os um uma uns umas do da dos das no na nos nas ao à e ou mas porque quando como que quem onde em com por para desde
até sobre entre seu sua seus suas meu minha ele ela eles elas é são era está estão foi tem há sempre
il lo gli uno del dello della dei degli delle al allo alla ai nel nella nei sul sulla e o ma perché quando come che chi
dove in con per da tra fra su suo sua suoi mio lui lei loro è sono era ha hanno sempre
"""
CAPITALIZED_NAMES = frozenset(("al", "don", "elle", "les", "may", "per", "uma", "una", "van", "will"))
"""Given names that are common function words: names only if capitalized within a sentence."""

FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words that do not indicate what a text is about, regardless of case. "mia" and "sue" are missing: they are names."""

_JAPANESE_SURNAMES = """
佐藤 鈴木 高橋 田中 伊藤 渡辺 渡邊 山本 中村 小林 加藤 吉田 山田 佐々木 山口 松本 井上 木村 斎藤 斉藤 清水 山崎 池田
橋本 阿部 石川 山下 中島 石井 小川 前田 岡田 長谷川 藤田 後藤 近藤 村上 遠藤 青木 坂本 福田 太田 西村 藤井 金子 岡本
藤原 三浦 中野 原田 松田 竹内 上田 中山 和田 森田 柴田 酒井 工藤 横山 宮崎 宮本 内田 高木
"""
JAPANESE_SURNAMES = frozenset(_JAPANESE_SURNAMES.split())

CHINESE_SURNAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕"
    "張劉陳楊趙黃吳孫馬羅鄭謝韓馮蕭鄧許呂"
)
KOREAN_SURNAMES = "김이박최정강조윤장임한오서신권황안송류홍전고문손배백허남심노하곽성차주우구민진지엄채원"

_NO_SECRETS = """
string str text int integer number bool boolean varchar char bytes object any void array list dict map optional required
must should may can will has have is are was the a an in on at to of for from with by and or not no none null nil
undefined unknown unset empty missing blank true false yes here there below above same default see ask use
password passwd passphrase passwort secret token key value username user admin root login account
expired invalid wrong incorrect correct changed rotated unchanged set reset forgotten lost weak strong encrypted hashed
plaintext stored saved disabled enabled hidden redacted masked protected removed deleted inherit inherited generated
pending tbd todo pass fail passed failed ok basic bearer oauth oauth2 saml ldap kerberos
siehe frag fehlt leer unbekannt abgelaufen geändert nicht keine keins pflicht erforderlich vergessen
voir demander inconnu aucun obligatoire oublié expiré ver pedir preguntar ninguno ninguna obligatoria caducada olvidada
nenhuma obrigatória esquecida vedi chiedi nessuna scaduta obbligatoria zie vraag geen zobacz brak nieznane спросить нет
"""
NO_SECRETS = frozenset(_NO_SECRETS.split())
"""Words that follow "password:" and the like without being one."""
