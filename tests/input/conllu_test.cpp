#include "input/conllu.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {

using namespace input;

namespace {

/// A row of CoNLL-U: "ID FORM HEAD MISC" with tabs and the columns between.
std::string row(const std::string& id, const std::string& form, const std::string& head,
                const std::string& misc = "_") {
  return id + "\t" + form + "\t_\tX\t_\t_\t" + head + "\t" + (head == "0" ? "root" : "dep") + "\t_\t" + misc +
         "\n";
}

std::vector<ConlluSentence> read(const std::string& text, const TextPlace& place = {"x.conllu", 0, 1}) {
  std::vector<ConlluSentence> sentences;
  read_conllu(text, place, sentences);
  return sentences;
}

std::string ranges(const ConlluSentence& sentence) {
  std::string shown;
  for (const ConlluWord& each : sentence.words) {
    shown += fmt::format("{}[{},{}) ", each.word.form, each.word.range.begin, each.word.range.end);
  }
  return shown;
}

TEST_CASE("words of a treebank have their annotation and their range in the text") {
  const std::string text = "# newpar\n# sent_id = s-1\n# text = We can't go.\n" + row("1", "We", "4") +
                           row("2-3", "can't", "_") + row("2", "ca", "4") + row("3", "n't", "4") +
                           row("3.1", "just", "_") + row("4", "go", "0", "X=1|SpaceAfter=No") +
                           row("5", ".", "4") + "\n";
  const std::vector<ConlluSentence> sentences = read(text, {"x", 0, 7});
  REQUIRE(sentences.size() == 1);
  const ConlluSentence& sentence = sentences.front();
  CHECK(sentence.id == "s-1");
  CHECK(sentence.text == "We can't go.");
  CHECK(sentence.line == 10);
  CHECK(ranges(sentence) == "We[0,2) ca[3,5) n't[5,8) go[9,11) .[11,12) ");
  CHECK(sentence.words[0].head == 4);
  CHECK(sentence.words[3].head == 0);
  CHECK(sentence.words[3].deprel == "root");
  CHECK(sentence.words[3].upos == "X");
}

TEST_CASE("words share the range of a multiword token if their forms do not add up to it") {
  struct Row {
    const char* what;
    std::string text;
    std::string want_text;
    std::string want;
  };
  for (const Row& each : {
           Row{"du is de and le, and each has all of it",
               "# text = du vin\n" + row("1-2", "du", "_") + row("1", "de", "3") + row("2", "le", "3") +
                   row("3", "vin", "0"),
               "du vin", "de[0,2) le[0,2) vin[3,6) "},
           Row{"code points, not bytes",
               "# text = é—ü x\n" + row("1", "é", "0", "SpaceAfter=No") +
                   row("2", "—", "1", "SpaceAfter=No") + row("3", "ü", "1") + row("4", "x", "1"),
               "é—ü x", "é[0,1) —[1,2) ü[2,3) x[4,5) "},
           Row{"without # text: forms and SpaceAfter",
               row("1", "a", "0", "SpaceAfter=No") + row("2", ",", "1") + row("3", "b", "1", "SpaceAfter=No"),
               "a, b", "a[0,1) ,[1,2) b[3,4) "},
           Row{"a form with a space, and wide spaces",
               "# text = 1 000\u3000 x\u00a0\n" + row("1", "1 000", "0") + row("2", "x", "1"),
               "1 000\u3000 x\u00a0", "1 000[0,5) x[7,8) "},
           Row{"SpaceAfter of the token counts, not of its words",
               "# text = im x\n" + row("1-2", "im", "_") + row("1", "i", "0", "SpaceAfter=No") +
                   row("2", "m", "1", "SpaceAfter=No") + row("3", "x", "1"),
               "im x", "i[0,1) m[1,2) x[3,4) "},
           Row{"# text_en is another thing", "# text_en = no\n#text=ja\n" + row("1", "ja", "0"), "ja",
               "ja[0,2) "},
       }) {
    CAPTURE(each.what);
    const std::vector<ConlluSentence> sentences = read(each.text);
    REQUIRE(sentences.size() == 1);
    CHECK(sentences[0].text == each.want_text);
    CHECK(ranges(sentences[0]) == each.want);
  }
}

TEST_CASE("sentences end at blank lines, in CRLF, and at the end of the file (112)") {
  const std::string one = "# sent_id = a\n" + row("1", "a", "0");
  const std::string two = "# sent_id = b\n" + row("1", "b", "_");
  std::string crlf;
  for (const char c : one + "\n" + two) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  for (const std::string& text :
       {one + "\n" + two + "\n", "\n\n" + one + "\n\n" + two, one + " \t\n" + two + "\n\n\n", crlf,
        one + "\n" + two.substr(0, two.size() - 1)}) {
    CAPTURE(text);
    const std::vector<ConlluSentence> sentences = read(text);
    REQUIRE(sentences.size() == 2);
    CHECK(sentences[0].id == "a");
    CHECK(sentences[1].text == "b");
    CHECK(sentences[1].words[0].head == std::nullopt);
  }
  CHECK(read("").empty());
  CHECK(read("# only a comment\n\n").empty());
}

/// "e1 0,1 head 1 NOUN's type" as "e1[0 1]1n ".
std::string mentions(const ConlluSentence& sentence) {
  std::string shown;
  for (const Mention& each : sentence.mentions) {
    const char* const types = "pxn";
    shown += fmt::format("{}[{}]{}{} ", each.entity, fmt::join(each.words, " "), each.head,
                         each.type ? types[static_cast<std::size_t>(*each.type)] : '-');
  }
  return shown;
}

TEST_CASE("brackets of Entity= give mentions and their heads") {
  struct Row {
    const char* name;
    std::string text;
    const char* want;
  };
  const auto word = [](const char* id, const char* upos, const char* head, const std::string& misc) {
    return std::string(id) + "\tw\t_\t" + upos + "\t_\t_\t" + head + "\tdep\t_\t" + misc + "\n";
  };
  const std::vector<Row> rows = {
      {"none", word("1", "NOUN", "0", "X=(e1)"), ""},
      {"another annotation", word("1", "NOUN", "0", "Entity=B-PER"), ""},
      {"one word", word("1", "PRON", "0", "A=1|Entity=(e1-person-1-new)|SpaceAfter=No"), "e1[0]0p "},
      {"nested, closed and opened at once",
       word("1", "DET", "3", "Entity=(3-a(4-b-c)(5") + word("2", "PROPN", "3", "Entity=5)") +
           word("3", "NOUN", "0", "Entity=3)(6)"),
       "3[0 1 2]2n 5[0 1]0p 4[0]0p 6[2]2n "},
      {"the same entity twice", word("1", "X", "2", "Entity=(e(e") + word("2", "PROPN", "0", "Entity=e)e)"),
       "e[0 1]1x e[0 1]1x "},
      {"no heads known", word("1", "_", "_", "Entity=(e1") + word("2", "_", "_", "Entity=e1)"), "e1[0 1]1- "},
      {"parts with a gap",
       word("1", "NOUN", "0", "Entity=(e1[1/2]-x)") + word("2", "VERB", "1", "Entity=(e2)") +
           word("3", "VERB", "1", "Entity=(e1[2/2]-x)"),
       "e1[0 2]0n e2[1]1n "},
      {"empty nodes have no words, and take part in those of others",
       word("0.1", "_", "_", "Entity=(e1)(e2") + word("1", "NOUN", "0", "_") +
           word("1.1", "_", "_", "Entity=e2)"),
       "e2[0]0n "},
  };
  for (const Row& each : rows) {
    CAPTURE(each.name);
    const auto sentences = read(each.text + "\n" + word("1", "NOUN", "0", "Entity=(e1)"));
    CHECK(mentions(sentences.front()) == each.want);
    CHECK(mentions(sentences.back()) == "e1[0]0n ");
  }
  for (const auto& row : std::vector<std::pair<std::string, const char*>>{
           {"Entity=(e1", "\"e1\" is not closed in its sentence"},
           {"Entity=e1)", "\"e1\" is closed but was not opened"},
           {"Entity=(e1)e1)", "\"e1\" is closed but was not opened"},
           {"Entity=()", "a bracket has no entity"},
           {"Entity=(e1)x", "\"x\" has no bracket that opens or closes"},
           {"Entity=(e1[2/2])", "\"e1[2/2]\", but no first part"},
       }) {
    CAPTURE(row.first);
    CHECK_THROWS_WITH_AS(read(word("1", "X", "0", row.first)), doctest::Contains(row.second), Error);
    CHECK_THROWS_WITH_AS(read(word("1", "X", "0", row.first)), doctest::Contains("x.conllu: line"), Error);
  }
}

TEST_CASE("errors of malformed CoNLL-U give the line") {
  struct Row {
    int kind;  // of the list of bad inputs; 0: not in it
    std::string text;
    std::string says;
  };
  const std::string a = row("1", "a", "0");
  for (const Row& each : {
           Row{108, "1\ta\t_\t_\t_\t_\t0\troot\t_\n", "line 3: got 9 columns, need 10"},
           Row{108, "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\t_\n", "line 3: got 11 columns"},
           Row{108, "1 a _ _ _ _ 0 root _ _\n", "got 1 column, need 10"},
           Row{109, a + row("1", "b", "1"), "line 4: ID: got 1, need 2"},
           Row{109, a + row("3", "b", "1"), "line 4: ID: got 3, need 2"},
           Row{109, row("0", "b", "1"), "ID: got \"0\""},
           Row{109, row("01", "b", "1"), "ID: got \"01\""},
           Row{109, row("x", "b", "1"), "ID: got \"x\""},
           Row{109, row("99999999999999999999", "b", "1"), "ID: got \"99999999999999999999\""},
           Row{109, a + row("2.1", "b", "_"), "the empty node \"2.1\" after word 1"},
           Row{110, row("2-1", "ba", "_") + a, "which is reversed"},
           Row{110, row("1-2", "ab", "_") + row("2-3", "bc", "_"),
               "need one that begins after 2, the end of the last range"},
           Row{110, row("2-3", "ab", "_") + a, "need one that begins at 1"},
           Row{110, row("1-4000000000", "a", "_") + a, "a range of IDs ends at 4000000000"},
           Row{110, row("1-", "a", "_") + a, "need a range such as 3-4"},
           Row{111, a + row("2", "b", "3"), "line 4: HEAD: got 3, but the sentence has 2 words"},
           Row{111, row("1", "a", "1"), "line 3: HEAD: got 1, which makes a cycle of heads"},
           Row{111, row("1", "a", "2") + row("2", "b", "3") + row("3", "c", "2"),
               "line 5: HEAD: got 2, which makes a cycle of heads"},
           Row{111, row("1", "a", "-1"), "HEAD: got \"-1\""},
           Row{113, "# text = b\n" + a, "line 4: FORM: got \"a\" where the text continues with \"b\""},
           Row{113, "# text = a b\n" + a, "the text continues with \"b\" after the last word"},
           Row{113, "# text = ab\n" + a + row("2", "b", "1"), "no space follows \"a\""},
           Row{113, "# text = a b\n" + row("1", "a", "0", "SpaceAfter=No") + row("2", "b", "1"),
               "continues with \" b\""},
           Row{113, "# text = \n" + a, "continues with \"\""},
           Row{0, a + "# text = next\n" + a, "line 4: got a comment after the words"},
           Row{0, row("1", "", "0"), "column 2 is empty"},
           Row{0, "# \xff\n" + a, "x.conllu: line 3: got 0xff as byte 3 of the line, which is not UTF-8"},
           Row{0, row("1", "\x1b[2J", "9"), "HEAD: got 9"},
           Row{113, "# text = a\n" + row("1", "\x1b[2J", "0"), "got \"\\x1b[2J\""},
       }) {
    CAPTURE(each.kind);
    CAPTURE(each.text);
    check_refusal(
        [&] {
          (void)read(each.text, {"x.conllu", 12, 3});
        },
        Status::bad_input, {"x.conllu: ", each.says});
  }
}

TEST_CASE("every form of the treebanks is at its range in the text") {
  const std::filesystem::path corpora = std::filesystem::path(ATTNCTL_SHARED_DIR) / "corpora";
  struct Row {
    const char* file;
    std::size_t sentences;
    std::size_t words;
  };
  // Counted with grep: lines of "# text = ", lines that begin with a number and a tab.
  for (const Row& each :
       {Row{"en_ewt-ud-dev.conllu", 2001, 25147}, Row{"en_ewt-ud-test.conllu", 2077, 25094},
        Row{"en_gum-ud-dev.conllu", 1575, 28119}, Row{"en_gum-ud-test.conllu", 1464, 28397}}) {
    if (!std::filesystem::exists(corpora / each.file)) {
      MESSAGE("skipped: no " << each.file << " in " << corpora.string());
      continue;
    }
    TextBlocks blocks(corpora / each.file, InputFormat::conllu, 1000);
    std::vector<ConlluSentence> sentences;
    for (TextBlock block; blocks.next(block);) read_conllu(block.text, block.place, sentences);
    std::size_t words = 0;
    for (const ConlluSentence& sentence : sentences) words += sentence.words.size();
    CHECK(sentences.size() == each.sentences);
    CHECK(words == each.words);
  }
}

}  // namespace
}  // namespace attnctl::test
