// Options as data: their values, errors and help.
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "cli/options/command.hpp"

namespace attnctl::test {
namespace {

using Words = std::vector<std::string>;
enum class Order { model, cluster };

/// A command with one option per kind of target, and their values.
struct Look {
  std::string model;
  std::optional<std::string> config, trained;
  std::string format = "json";
  std::size_t seed = 7;
  std::optional<std::size_t> count;
  std::optional<int> digits;
  double share = 0.25;
  Words list;
  std::vector<std::size_t> numbers = {1, 2};
  Order order = Order::model;
  bool quiet = false;
  bool seed_given = false;
  Words inputs;  // in the order of the command line
  cli::Command root{.name = "attnctl", .about = "See"};

  Look() {
    cli::Command look{.name = "look", .about = "Look at a model"};
    look.add(
        {{.names = "MODEL", .target = &model, .help = "Checkpoint", .required = true},
         {"--trained", &trained, "A model"},
         {.names = "--config", .target = &config, .help = "Its file", .type = "FILE", .needs = "--trained"},
         {.names = "--format", .target = &format, .help = "How", .allowed = {"json", "csv"}},
         {.names = "--seed",
          .target = &seed,
          .help = "Seed",
          .show_default = true,
          .excludes = "--trained",
          .given = &seed_given},
         cli::number("--count", &count, "Count", cli::positive()),
         {.names = "--digits", .target = &digits, .help = "Digits", .range = cli::Range{0, 9}},
         cli::number("--share", &share, "Share", cli::Range{0.0, 1.0})});
    look.add("Lists", {{.names = "-l,--list", .target = &list, .help = "List", .split = true},
                       cli::number("--numbers", &numbers, "Numbers"),
                       cli::choice("--order", order, {"model", "cluster"}, "Order"),
                       {"--quiet", &quiet, "Quiet"}});
    for (const char* name : {"--text", "--ids"}) {
      look.add("Inputs", {{.names = name,
                           .target = [this, name](const std::string& word) { inputs.push_back(name + word); },
                           .in_order = true}});
    }
    root.subcommands = {look};
  }

  /// Parses a command line. Returns the name of the chosen command, or the text of --help.
  std::string parse(const Words& words) {
    std::vector<std::string> copies = {"attnctl"};
    copies.insert(copies.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : copies) arguments.push_back(word.data());
    const auto parsed = cli::parse_command_line(root, static_cast<int>(arguments.size()), arguments.data());
    if (const std::string* const text = std::get_if<std::string>(&parsed)) return *text;
    return std::get<const cli::Command*>(parsed)->name;
  }
};

TEST_CASE("options set their targets") {
  Look look;
  CHECK(look.parse({"look",    "m",       "--text",  "a",        "--seed=0x10", "--ids",   "1",
                    "--text",  "b",       "--list",  "x,y",      "-l",          "z",       "--numbers",
                    "5,6,7",   "--order", "cluster", "--digits", "3",           "--share", "0.5",
                    "--quiet", "--count", "4",       "--format", "csv"}) == "look");
  CHECK(look.model == "m");
  CHECK(look.inputs == Words{"--texta", "--ids1", "--textb"});
  CHECK(look.seed == 16);
  CHECK(look.seed_given);
  CHECK(look.list == Words{"x", "y", "z"});
  CHECK(look.numbers == std::vector<std::size_t>{5, 6, 7});
  CHECK(look.order == Order::cluster);
  CHECK(look.digits == 3);
  CHECK(look.share == 0.5);
  CHECK(look.quiet);
  CHECK(look.count == 4);
  CHECK(look.format == "csv");
  CHECK(!look.config);
}

TEST_CASE("an option with = and nothing after it has an empty value") {
  Look look;
  CHECK(look.parse({"look", "--config=", "--trained", "t", "m", "--text=", "--text", "a"}) == "look");
  CHECK(look.config == "");
  CHECK(look.model == "m");
  CHECK(look.inputs == Words{"--text", "--texta"});
  CHECK_THROWS_AS((void)Look().parse({"look", "m", "--format=", "csv"}), Error);
}

TEST_CASE("options that are not given keep their defaults") {
  Look look;
  CHECK(look.parse({"look", "--trained", "t", "--config", "c", "m"}) == "look");
  CHECK(look.trained == "t");
  CHECK(look.config == "c");
  CHECK(look.seed == 7);
  CHECK(!look.seed_given);
  CHECK(!look.count);
  CHECK(!look.digits);
  CHECK(look.numbers == std::vector<std::size_t>{1, 2});
  CHECK(!look.quiet);
  CHECK(Look().parse({}) == "attnctl");
}

TEST_CASE("bad options are errors of one line") {
  struct Row {
    Words words;
    const char* message;
  };
  const std::vector<Row> rows = {
      {{"look"}, "MODEL is required; the first argument is MODEL"},
      {{"look", "m", "extra", "more"}, "unexpected argument \"extra\""},
      {{"fly"}, "unknown command \"fly\", need one of look"},
      {{"lok", "--help"}, "unknown command \"lok\" (did you mean \"look\"?)"},
      {{"lok", "m", "--digits", "3"}, "unknown command \"lok\" (did you mean \"look\"?)"},
      {{"--quiet", "look", "m"}, "unknown option --quiet"},
      {{"look", "m", "--fromat", "csv"}, "unknown option --fromat (did you mean \"--format\"?)"},
      {{"look", "--trined=x"}, "unknown option --trined (did you mean \"--trained\"?)"},
      {{"look", "m", "--format", "xml"}, "--format: got xml, need one of json, csv"},
      {{"look", "m", "--format", "cvs"}, "--format: got cvs (did you mean \"csv\"?), need one of json, csv"},
      {{"look", "m", "--order", "x"}, "--order: got x, need one of model, cluster"},
      {{"look", "m", "--order", "clust"},
       "--order: got clust (did you mean \"cluster\"?), need one of model, cluster"},
      {{"look", "m", "--count", "0"}, "--count: got 0, need a positive number"},
      {{"look", "m", "--digits", "10"}, "--digits: got 10, need a number from 0 to 9"},
      {{"look", "m", "--digits", "a\nb"}, "--digits: got a\\x0ab, need a number from 0 to 9"},
      {{"look", "m", "--share", "1.5"}, "--share: got 1.5, need a number from 0 to 1"},
      {{"look", "m", "--share", "nan"}, "--share: got nan, need a number from 0 to 1"},
      {{"look", "m", "--seed", "x"}, "Could not convert: --seed = x"},
      {{"look", "m", "--numbers", "1,x"}, "Could not convert: --numbers = 1,x"},
      {{"look", "m", "--seed", "1", "--seed", "2"}, "--seed: At Most 1 required but received 2"},
      {{"look", "m", "--seed"}, "--seed: 1 required NUMBER missing"},
      {{"look", "m", "--config", "c"}, "--config requires --trained"},
      {{"look", "m", "--trained", "t", "--seed", "1"}, "--trained excludes --seed"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const bool known = row.words.front() == "look";
    const std::string hint =
        known ? "; attnctl look --help shows the options" : "; attnctl --help shows the commands";
    CHECK_THROWS_WITH_AS((void)Look().parse(row.words), (row.message + hint).c_str(), Error);
  }
}

TEST_CASE("--help shows values, defaults and relations of options") {
  const std::string help = Look().parse({"look", "--help"});
  for (const std::string line : {
           "Usage: attnctl look [OPTIONS] MODEL\n",
           "  MODEL TEXT REQUIRED         Checkpoint\n",
           "  --trained TEXT Excludes: --seed\n                              A model\n",
           "  --config FILE Needs: --trained\n                              Its file\n",
           "  --format TEXT:{json,csv}    How\n",
           "  --seed NUMBER=7 Excludes: --trained\n                              Seed\n",
           "  --count NUMBER:POSITIVE     Count\n",
           "  --digits NUMBER:0 to 9      Digits\n",
           "  --share NUMBER:0 to 1=0.25  Share\n",
           "\nLists:\n  -l,--list TEXT ...          List\n",
           "  --numbers NUMBER=[1,2] ...  Numbers\n",
           "  --order model|cluster       Order\n",
           "  --quiet                     Quiet\n",
       }) {
    CHECK_MESSAGE(help.find(line) != std::string::npos, line, help);
  }
  CHECK(Look().parse({"--help"}).find("  look                        Look at a model\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace attnctl::test
