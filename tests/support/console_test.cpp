#include "support/console.hpp"

#include <doctest/doctest.h>

namespace attnctl::test {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("examples are found in a document") {
  const char* text =
      "# Title\n```console\n$ attnctl info a \\\n    --length 4\nlayers 4\nheads 2\n$ attnctl schema "
      "info\n```\n"
      "$ not a block\n```\n$ not console\n```\n```python\n# plot.py\nimport json\n```\n```\n# nothing\n```\n";
  const std::vector<Example> examples = console_examples(text);
  REQUIRE(examples.size() == 2);
  CHECK(examples[0].line == 3);
  CHECK(examples[0].command == "attnctl info a \\\n    --length 4");
  CHECK(examples[0].output == Lines{"layers 4", "heads 2"});
  CHECK(examples[1].command == "attnctl schema info");
  CHECK(examples[1].output.empty());
  const std::vector<NamedFile> files = named_files(text);
  REQUIRE(files.size() == 1);
  CHECK(files[0].name == "plot.py");
  CHECK(files[0].text == "# plot.py\nimport json\n");
}

TEST_CASE("examples are found in a help text") {
  CHECK(help_examples(
            "Usage: x\n  attnctl no\nExamples:\n  attnctl a\n  attnctl b \\\n    c\n\n  attnctl no\n") ==
        Lines{"attnctl a", "attnctl b \\\n  c"});
}

TEST_CASE("shown lines are held against printed ones") {
  struct Row {
    Lines shown, printed;
    const char* want;
  };
  const std::vector<Row> rows = {
      {{"a 1"}, {"a 1"}, ""},
      {{"a  0.25"}, {"a 0.26"}, ""},
      {{"a 0.25"}, {"a 0.27"}, "shown \"a 0.25\", but printed \"a 0.27\""},
      {{"a 0.25"}, {"a 0.251"}, "shown \"a 0.25\", but printed \"a 0.251\""},
      {{"a -5.39e-05"}, {"a -5.40e-05"}, ""},
      {{"a 5.39e-05"}, {"a 5.41e-05"}, "shown \"a 5.39e-05\", but printed \"a 5.41e-05\""},
      {{"a 5.39e-05"}, {"a 5.39e-06"}, "shown \"a 5.39e-05\", but printed \"a 5.39e-06\""},
      {{"a 3"}, {"a 4"}, "shown \"a 3\", but printed \"a 4\""},
      {{"a"}, {"a", "b"}, "printed further \"b\""},
      {{"a", "b"}, {"a"}, "shown \"b\", but nothing more is printed"},
      {{"a", "..."}, {"a", "b", "c"}, ""},
      {{"a", "...", "c"}, {"a", "b", "c"}, ""},
      {{"...", "c"}, {"a", "b"}, "shown \"c\", but nothing more is printed"},
      {{"a b"}, {"a"}, "shown \"a b\", but printed \"a\""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.shown.front());
    CHECK(shown_against_printed(row.shown, row.printed) == row.want);
  }
}

}  // namespace
}  // namespace attnctl::test
