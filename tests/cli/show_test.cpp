#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/console.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::lines_of;
using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::slurp;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool has_line(const std::vector<std::string>& lines, const std::string& line) {
  return std::ranges::find(lines, line) != lines.end();
}

TEST_CASE("--show: a head's pattern with its tokens") {
  const std::string input = R"({"tokens": ["[CLS]", "the", "cat", "sat", ".", "[SEP]"]})";
  const RunResult result =
      run_attnctl({"analyze", "data/tiny-bert", "--input", "-", "--input-format", "jsonl", "--show", "1.2"},
                  {.input = input});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.out.find("\n0: [CLS] the cat sat . [SEP]\n") != std::string::npos);
  CHECK(result.out.find("Pattern of 1.2, input \"0\"\n") != std::string::npos);
  CHECK(result.out.find("\nquery ] e t t . ]\n") != std::string::npos);
  for (const char* token : {"\n[CLS]", "\ncat", "\n[SEP]", "\nweight 0 "}) {
    CHECK_MESSAGE(result.out.find(token) != std::string::npos, token);
  }
  CHECK(result.out.find('\x1b') == std::string::npos);
}

TEST_CASE("--show: all heads of a layer, their mean first") {
  RunResult result = run_attnctl({"analyze", "data/tiny-llama", "--ids", "5,6,7,8", "--show", "3"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const std::size_t mean = result.out.find("3 mean");
  REQUIRE(mean != std::string::npos);
  CHECK(mean < result.out.find("3.0"));
  CHECK(result.out.find("3.3") != std::string::npos);
  CHECK(result.out.find("queries down, keys across (the tokens above, in order)\n") != std::string::npos);
  for (const char* part : {"\n$ ", "(blank: below 0.05)\n"})
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, part);
  result = run_attnctl({"analyze", "data/tiny-llama", "--ids", "5,6,7,8", "--show", "3", "--format", "svg"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(count_of(result.out, ">3 mean<") == 1);
  for (const char* head : {">3.0<", ">3.1<", ">3.2<", ">3.3<"}) CHECK(count_of(result.out, head) == 1);
  CHECK(result.out.find(">2.0<") == std::string::npos);
}

TEST_CASE("weights: the most similar pairs of heads") {
  const auto lines = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"weights", "data/tiny-llama", "--format", "text"});
    return lines_of(run_attnctl(more).out);
  };
  const std::vector<std::string> page = lines({});
  const auto title = std::ranges::find(
      page, "Pairs of heads with the largest |similarity| within a layer (--across-layers: all pairs)");
  REQUIRE(page.end() - title > 11);
  CHECK(title[1] == "circuit  head  and  similarity");
  const json document = json::parse(run_attnctl({"weights", "data/tiny-llama"}).out);
  for (std::size_t c = 0; c < 2; ++c) {
    std::vector<std::pair<double, std::string>> pairs;
    for (const json& each : document.at("subspace_similarity")) {
      if (each.at("circuit") != (c == 0 ? "qk" : "ov")) continue;
      for (std::size_t a = 0; a < each.at("names").size(); ++a) {
        for (std::size_t b = a + 1; b < each.at("names").size(); ++b) {
          const double value = each.at("similarity").at(a).at(b).get<double>();
          pairs.emplace_back(std::abs(value), fmt::format("{:7}  {:4}  {}  {:10.4f}", c == 0 ? "QK" : "OV",
                                                          each.at("names").at(a).get<std::string>(),
                                                          each.at("names").at(b).get<std::string>(), value));
        }
      }
    }
    std::ranges::sort(pairs, std::ranges::greater());
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(title[static_cast<std::ptrdiff_t>(2 + 5 * c + i)] == pairs.at(i).second);
  }
  CHECK(has_line(lines({"--across-layers"}), "Pairs of heads with the largest |similarity|"));
  const std::vector<std::string> one = lines({"--top", "1"});
  CHECK(std::ranges::count_if(one, [](const auto& line) { return line.starts_with("OV "); }) == 1);
  CHECK(one.back() == "15 more heads: --top all");
}

TEST_CASE("pictures name the model and the text, and draw what was asked") {
  const auto drawn = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--format", "svg"});
    const RunResult result = run_attnctl(arguments);
    CHECK_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const auto shows = [](const std::string& svg, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) CHECK_MESSAGE(svg.find(text) != std::string::npos, text);
  };
  const std::string model = "data/tiny-bert";
  const std::string text = "The cat sat.";
  shows(drawn({"analyze", model, text}), {">Attention Patterns<", ">data/tiny-bert<", ">The cat sat.<",
                                          ">0.0<", ">2.3<", ">Attention weight<"});
  shows(drawn({"analyze", model, text, "--show", "1.2"}), {">Attention Pattern of Layer 1, Head 2<"});
  shows(drawn({"analyze", model, text, "--show", "1.2", "--weighting", "norm"}),
        {">Norm-Weighted Pattern of Layer 1, Head 2<", ">Norm of weighted value<"});
  const std::string from = drawn({"analyze", model, text, "--from", "cat"});
  shows(from, {">What &quot;cat&quot; Looks At<", ">The cat sat.<", ">2.3<", ">cat<"});
  CHECK(count_of(from, "<rect") >= 12 * 6);  // heads and tokens
  shows(drawn({"analyze", model, text, "--include", "rollout"}), {">Attention Rollout<", ">The cat sat.<"});
  const std::string weights = drawn({"weights", model});
  shows(weights, {">Subspace Similarity of Heads (cosine of W_Q W_K^T and of W_V W_O)<", ">QK, Layer 0<",
                  ">OV, Layer 2<", ">data/tiny-bert<"});
  CHECK(count_of(weights, ": no value</title>") == 2 * 3 * 4);  // the diagonals
  CHECK(drawn({"analyze", model, text, "--include", "weights"}) == weights);
  shows(drawn({"weights", model, "--across-layers", "--include", "map", "--similarity", "qk"}),
        {">layer 0, QK<", ">layer 2, QK<", ">Stress "});
}

TEST_CASE("--plot draws a column of a table of heads by layer and head") {
  const auto run = [](std::vector<std::string> arguments, const char* format = "svg") {
    arguments.insert(arguments.end(), {"--format", format});
    return run_attnctl(arguments);
  };
  const auto shows = [&](const std::vector<std::string>& arguments, const std::vector<std::string>& texts) {
    const RunResult result = run(arguments);
    CHECK_MESSAGE(result.status == 0, result.err);
    for (const std::string& text : texts) CHECK_MESSAGE(result.out.find(text) != std::string::npos, text);
    return result.out;
  };
  const std::vector<std::string> analyze = {"analyze", "data/tiny-bert", "The cat sat."};
  const auto plot = [](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.emplace_back("--plot");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::string entropy = shows(
      plot(analyze, {"entropy"}),
      {">Heads: entropy<", ">entropy (nats)<", ">data/tiny-bert<", ">The cat sat.<", ">Layer<", ">Head<"});
  CHECK(count_of(entropy, ">Head<") == 1);  // one heatmap
  const json heads = json::parse(run(analyze, "json").out).at("heads");
  REQUIRE(heads.size() == 12);
  for (const json& head : heads) {
    const std::string cell = fmt::format("<title>{}, {}: {:.4g}</title>", head["layer"].get<int>(),
                                         head["head"].get<int>(), head["entropy"].get<double>());
    CHECK_MESSAGE(entropy.find(cell) != std::string::npos, cell);
  }
  shows(plot(analyze, {"ov_stable_rank"}), {">Heads: ov stable rank<"});
  shows(plot({"weights", "data/tiny-bert"}, {"ov_stable_rank"}), {">Heads: ov stable rank<"});
  shows(plot(analyze, {"heads.entropy"}), {">Heads: entropy<"});
  shows(plot(analyze, {"contributions.share"}), {">Heads: contributions share<"});
  shows(plot(analyze, {"share", "--include", "contributions"}), {">Heads: contributions share<"});
  shows(
      {"analyze", "data/tiny-bert", "The cat sat.", "--include", "contributions"},
      {">Heads: contributions norm<", ">data/tiny-bert<", ">The cat sat.<", ">mean over positions of |w_i|"});
  const std::string inputs = shows(plot(analyze, {"entropy", "--per-input", "--text", "It was tired."}),
                                   {">input 0</text>", ">input 1</text>"});
  CHECK(count_of(inputs, "<title>2, 3: ") == 2);
  const std::vector<std::string> study = {"study", "data/tiny-bert", "--input", "data/sentences.txt"};
  shows(plot(study, {"entropy", "--measures", "metrics"}), {">Heads: entropy<", ">data/tiny-bert<"});
  shows(plot(study, {"positional.weight", "--measures", "positional"}), {">offset -8<", ">offset 8<"});

  const std::string offset = shows(plot(study, {"positional.weight=offset -8", "--measures", "positional"}),
                                   {">Heads: positional weight, offset -8<"});
  CHECK(count_of(offset, "<title>2, 3: ") == 1);

  const auto refused = [&](const std::vector<std::string>& arguments, const char* format = "svg") {
    const RunResult result = run(arguments, format);
    CHECK(result.status == 2);
    return result.err;
  };
  CHECK(
      refused(plot(study, {"positional.weight=9", "--measures", "positional"}))
          .ends_with("no heatmap has a title with each word of \"9\"; the titles are offset -8, offset -7, "
                     "offset -6, offset -5, offset -4, offset -3, offset -2, offset -1, offset 0, offset 1, "
                     "offset 2, offset 3, and 5 more\n"));
  CHECK(refused(plot(analyze, {"entropi"}))
            .starts_with("attnctl: --plot entropi: this run has no such column of heads (did you mean "
                         "\"entropy\"?); it has best_offset, "));
  CHECK(refused(plot(analyze, {"contributions.shar"})).find("\"contributions.share\"") != std::string::npos);
  CHECK(
      refused(plot(analyze, {"patterns.weight"}))
          .ends_with("this run has no table with one number per head; need a column of such a table, such as "
                     "entropy or contributions.share\n"));
  CHECK(refused(plot(analyze, {"entropy", "--show", "1"})).find("remove --plot") != std::string::npos);
  CHECK(refused(plot(study, {"entropi"})).find("no measure has this column") != std::string::npos);
  for (const char* const key : {"positional.offset", "positional.name", "positional.model"})
    CHECK(refused(plot(study, {key})).find("no such column of heads") != std::string::npos);
  const std::string bart =
      shows(plot({"analyze", "tests/golden/bart", "--ids", "1,2,3", "--target-ids", "1,2,3"}, {"entropy"}),
            {">enc<", ">dec<", ">cross<"});
  CHECK(count_of(bart, "<title>1, ") == 3);  // only the encoder has a layer 1, with three heads
  CHECK(refused(plot({"weights", "data/tiny-bert"}, {"entropy"})).find("no numbers") != std::string::npos);
  CHECK(refused(plot(analyze, {"entropy"}), "json") ==
        "attnctl: --plot needs --format svg, png or pdf, or -o FILE with this extension\n");
  const std::string completion = run_attnctl({"completion", "bash"}).out;
  CHECK(completion.find("special_token best_offset best_offset_share") != std::string::npos);
}

TEST_CASE("a picture of the patterns of one layer for several inputs has one column per head") {
  const RunResult result =
      run_attnctl({"analyze", "data/tiny-bert", "--text", "a", "--text", "b", "--text", "c", "--heads",
                   "0.0,0.1", "--include", "patterns", "--format", "svg"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const auto left_of = [&result](const std::string& title) {
    const std::size_t end = result.out.find(">" + title + "<");
    REQUIRE(end != std::string::npos);
    const std::size_t start = result.out.rfind("<text x=", end);
    return result.out.substr(start, result.out.find(' ', start + 6) - start);
  };
  for (const char* input : {"1", "2"}) {
    for (const char* head : {"0.0", "0.1"})
      CHECK(left_of(fmt::format("Input {}, {}", input, head)) == left_of(fmt::format("Input 0, {}", head)));
  }
}

TEST_CASE("text and pictures show tokens as the tokenizer writes them, or without markers") {
  const auto run = [](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const auto contains = [](const std::string& page, const std::string& part) {
    return page.find(part) != std::string::npos;
  };
  const std::vector<std::string> bert = {"analyze", "data/tiny-bert", "The mechanic fixed it."};
  const std::vector<std::string> llama = {"analyze", "data/tiny-llama", "The cat sat on a mat."};
  const std::vector<std::string> gradients = {"experiment",      "gradients", "--model",
                                              "data/tiny-llama", "--text",    "The cat sat"};
  const auto tokenize = [](const std::string& name) {
    return std::vector<std::string>{"tokenize", "tests/golden/tokenizers/" + name, "the café"};
  };
  struct Row {
    std::vector<std::string> command, more;
    std::string shown, stripped;  // parts of the output without and with --strip-markers
  };
  const std::vector<std::string> text = {"--format", "text"};
  for (const Row& row : {
           Row{bert, {"--show", "0.3"}, "\n##ed         ░░▓▓░░\n", "\ned           ░░▓▓░░\n"},
           Row{bert, {"--show", "0.3"}, "\n       C   c #   #     S\n", "\n       C   c           S\n"},
           Row{bert,
               {"--show", "0"},
               "\n0: [CLS] the mechan ##ic fix ##ed it . [SEP]\n",
               "\n0: [CLS] the mechan ic fix ed it . [SEP]\n"},
           Row{bert,
               {"--format", "text", "--include", "patterns"},
               "\nquery   [CLS]    the mechan   ##ic ",
               "\nquery   [CLS]    the mechan     ic "},
           Row{bert,
               {"--format", "text", "--from", "fixed"},
               "\n0 mean  3:##ic 0.23  5:##ed ",
               "\n0 mean  3:ic 0.23  5:ed "},
           Row{bert,
               {"--format", "text", "--include", "rollout", "--rollout-from", "it"},
               "\n       3  ##ic ",
               "\n       3  ic   "},
           Row{bert, {"--format", "svg"}, ">##ic<", ">ic<"},
           Row{bert, {"--format", "svg", "--from", "it"}, ">##ic<", ">ic<"},
           Row{bert, {"--format", "svg", "--show", "0"}, ">##ic<", ">ic<"},
           Row{bert, {"--format", "svg", "--include", "flow"}, ">##ic<", ">ic<"},
           Row{bert, {"--format", "svg", "--include", "mixing"}, ">##ic<", ">ic<"},
           Row{llama,
               {"--format", "text", "--include", "logits"},
               "\n0: <s> The Ġcat Ġsat ",
               "\n0: <s> The cat sat "},
           Row{llama, {"--format", "text", "--include", "logits"}, "\n   2  ĠAnd ", "\n   2  And "},
           Row{gradients, text, " 2  Ġcat ", " 2  cat "},
           Row{gradients, {"--format", "svg"}, ">Ġcat<", ">cat<"},
           Row{tokenize("bpe-llama"), text, " 1  ▁the   502 ", " 1  the    502 "},
           Row{tokenize("unigram-albert"), text, " 1  ▁the     9 ", " 1  the      9 "},
           Row{tokenize("byte-level-roberta"), text, " 1  Ġthe   270 ", " 1  the    270 "},
           Row{tokenize("byte-level-roberta"), text, " 5  Ã      131 ", " 5  Ã      131 "},
       }) {
    CAPTURE(row.shown);
    const std::string page = run(row.command, row.more);
    CHECK_MESSAGE(contains(page, row.shown), page);
    std::vector<std::string> more = row.more;
    more.emplace_back("--strip-markers");
    const std::string stripped = run(row.command, more);
    CHECK_MESSAGE(contains(stripped, row.stripped), stripped);
    for (const char* marker : {"##", "Ġ", "▁"}) CHECK_FALSE(contains(stripped, marker));
  }
  for (const auto& command : {bert, gradients, tokenize("bpe-llama")}) {
    for (const std::string format : {"json", "csv", "npz"}) {
      if (format == "npz" && command != bert) continue;
      std::vector<std::string> more = {"--format", format};
      if (format == "csv" && command == bert) more.insert(more.end(), {"--table", "patterns"});
      if (format == "csv" && command.front() == "tokenize") more.insert(more.end(), {"--table", "tokens"});
      const std::string all = run(command, more);
      more.emplace_back("--strip-markers");
      CHECK(run(command, more) == all);
    }
  }
}

TEST_CASE("the default picture is the same as without the options of pictures") {
  const auto drawn = [](const std::string& picture, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"experiment", "positions", "--positions", "6",        "--d",
                                          "8",          "--picture", picture,       "--format", "svg"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(arguments);
    CHECK_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const std::vector<std::string> defaults = {"--font-size", "9", "--colormap"};
  const auto with = [&defaults](const char* colormap) {
    std::vector<std::string> options = defaults;
    options.emplace_back(colormap);
    return options;
  };
  CHECK(drawn("matrix", with("rdbu_r")) == drawn("matrix", {}));
  CHECK(drawn("similarity", with("rdbu_r")) == drawn("similarity", {}));
  CHECK(drawn("charts", {"--font-size", "9"}) == drawn("charts", {}));
}

TEST_CASE("pictures for papers: title, size of texts, colours, width and scale") {
  const std::vector<std::string> options = {"--format", "svg",        "--title", "Q & A <1>", "--font-size",
                                            "12",       "--colormap", "viridis", "--width",   "400",
                                            "--vmin",   "-0.4",       "--vmax",  "0.8"};
  const std::string corpus = "data/sentences.txt";
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"analyze", "data/tiny-bert", "The cat sat."},
        {"analyze", "data/tiny-bert", "The cat sat.", "--show", "1.2"},
        {"analyze", "data/tiny-bert", "The cat sat.", "--plot", "entropy"},
        {"weights", "data/tiny-bert"},
        {"study", "data/tiny-bert", "--input", corpus, "--plot", "entropy", "--measures", "metrics"},
        {"experiment", "positions", "--positions", "6", "--d", "8", "--picture", "matrix"}}) {
    CAPTURE(arguments.front());
    arguments.insert(arguments.end(), options.begin(), options.end());
    const RunResult result = run_attnctl(arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(result.err.find("unused") == std::string::npos);
    for (const char* text : {" width=\"400\" height=", "<title>Q &amp; A &lt;1&gt;</title>",
                             ">Q &amp; A &lt;1&gt;</text>", "stop-color=\"#fde725\"", ">-0.4<", ">0.6<"})
      CHECK_MESSAGE(result.out.find(text) != std::string::npos, text);
  }
}

TEST_CASE("options of pictures that change nothing give a warning, wrong ones are errors") {
  const TempDir folder;
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"analyze", "data/tiny-bert", "The cat sat.", "--include",
                                          "metrics"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attnctl(arguments);
  };
  const std::string unused =
      "attnctl: warning: --title, --font-size, --font-family, --colormap, --width, --vmin and --vmax change "
      "only svg, png "
      "and pdf\n";
  for (const std::string format : {"json", "text", "csv", "npz"}) {
    const std::string path = (folder.path() / format).string();
    CHECK(run({"--format", format, "-o", path, "--title", ""}).err == unused);
    CHECK(run({"--format", format, "-o", path, "--vmin", "0"}).err == unused);
    CHECK(run({"--format", format, "-o", path}).err.empty());
  }
  CHECK(run({"--format", "json", "--width", "300"}).out.find("\"unused_picture_options\"") !=
        std::string::npos);
  const std::vector<std::string> charts = {"experiment", "positions", "--positions", "6",
                                           "--d",        "8",         "--format",    "svg"};
  const auto drawn = [&](std::vector<std::string> more) {
    more.insert(more.begin(), charts.begin(), charts.end());
    return run_attnctl(more);
  };
  CHECK(drawn({"--title", "x", "--width", "300"}).err.empty());
  CHECK(drawn({"--colormap", "greys"}).err ==
        "attnctl: warning: --colormap, --vmin and --vmax change only heatmaps; this picture has charts\n");

  const auto refused = [&](const std::vector<std::string>& more) {
    const RunResult result = run(more);
    CHECK(result.status == 2);
    return result.err;
  };
  CHECK(refused({"--vmin", "1", "--vmax", "0.5"}) ==
        "attnctl: --vmin: got 1, need a number below --vmax 0.5\n");
  CHECK(refused({"--vmin", "1", "--vmax", "1"}).find("need a number below --vmax 1") != std::string::npos);
  CHECK(refused({"--vmax", "nan"}).find("--vmax: got nan, need a finite number") != std::string::npos);
  CHECK(refused({"--vmax", "inf"}).find("--vmax: got inf, need a finite number") != std::string::npos);
  CHECK(refused({"--width", "0"}).find("--width: got 0, need a number from 1 to 32767") != std::string::npos);
  CHECK(refused({"--font-size", "0.5"}).find("need a number from 1 to 100") != std::string::npos);
  CHECK(refused({"--font-family", "a'b"}).find("--font-family: got \"a'b\", need one name of letters") !=
        std::string::npos);
  CHECK(refused({"--colormap", "virids"}).find("(did you mean \"viridis\"?), need one of blues, rdbu_r,") !=
        std::string::npos);
}

TEST_CASE("--show accepts the names 3.1, 3:1 and L3H1 of a head, and L3 of a layer") {
  const auto drawn = [](const std::string& head) {
    const RunResult result = run_attnctl({"analyze", "data/tiny-llama", "--ids", "5,6,7,8", "--show", head});
    CHECK_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const std::string wanted = drawn("3.1");
  CHECK(wanted.find("Pattern of 3.1") != std::string::npos);
  for (const char* head : {"3:1", "L3H1", "l3h1"}) CHECK(drawn(head) == wanted);
  CHECK(drawn("L3") == drawn("3"));
}

TEST_CASE("--show: contradictory options are rejected") {
  const auto refused = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"analyze", "data/tiny-llama", "--ids", "5,6", "--show"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(arguments);
    CHECK(result.status == 2);
    return result.err;
  };
  CHECK(refused({"9"}) == "attnctl: --show: got 9, the layers are 0 to 3\n");
  CHECK(refused({"0.9"}) == "attnctl: --show: got 0.9: layer 0 has 4 heads (0 to 3)\n");
  CHECK(refused({"9.9"}) == "attnctl: --show: got 9.9: the model has 4 layers (0 to 3)\n");
  CHECK(refused({"1", "--layers", "2"}).find("remove --layers") != std::string::npos);
  CHECK(refused({"1", "--include", "scores"}).find("remove --include") != std::string::npos);
  CHECK(refused({"1", "--format", "json"}).find("text, svg, png or pdf") != std::string::npos);
}

/// A model with 6 layers of 12 heads and irregular weights, and a question about it.
class ManyHeads {
 public:
  ManyHeads() {
    json model;
    model["embedding"] = matrix(4, 4, 1);
    model["config"] = json::parse(
        R"({"model_type": "attention", "heads": 12, "layers": 6, "vocab": ["it", "cat", "sat", "was"]})");
    for (std::size_t layer = 0; layer < 6; ++layer) {
      const std::string prefix = fmt::format("layers.{}.W_", layer);
      for (const char* name : {"q", "k", "v"}) model[prefix + name] = matrix(4, 12, 4 * layer + model.size());
      model[prefix + "o"] = matrix(12, 4, layer);
    }
    path_ = folder_.write("m.json", model.dump()).string();
  }
  [[nodiscard]] const TempDir& folder() const { return folder_; }

  [[nodiscard]] RunResult run(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"analyze", path_, "--ids", "1,2,0,3",
                                          "--from",  "it",  "--to",  "cat,was"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attnctl(arguments);
  }
  /// Returns the lines of the text page.
  [[nodiscard]] std::vector<std::string> page(std::vector<std::string> more) const {
    more.insert(more.end(), {"--format", "text"});
    const RunResult result = run(more);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return lines_of(result.out);
  }
  [[nodiscard]] json answers(const std::vector<std::string>& more = {}) const {
    const RunResult result = run(more);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out).at("attention_from");
  }
  /// Returns the answers with the largest weights on a word of --to first.
  [[nodiscard]] std::vector<json> sorted_answers(std::size_t word) const {
    auto sorted = answers().get<std::vector<json>>();
    std::ranges::stable_sort(sorted, std::ranges::greater(), [&](const json& answer) {
      return answer.at("to").at(word).at("weight").get<float>();
    });
    return sorted;
  }

 private:
  static json matrix(std::size_t rows, std::size_t columns, std::size_t seed) {
    json values;
    for (std::size_t i = 0; i < rows * columns; ++i)
      values[i / columns].push_back(std::sin(static_cast<double>(i * i % 1009 + seed)));
    return values;
  }

  TempDir folder_;
  std::string path_;
};

TEST_CASE("--from: text has only the answer, with at most 20 rows and the strongest heads") {
  const ManyHeads model;
  const std::vector<std::string> lines = model.page({});
  REQUIRE(lines.size() == 30);
  CHECK(lines[4] == "What \"it\" looks at (input \"0\", position 2)");
  CHECK(lines[6].starts_with("0 mean "));
  CHECK(lines[25].starts_with("1.5 "));
  CHECK(lines[26] == "54 more heads: --top all; --sort cat shows the strongest on cat first");
  for (std::size_t word = 0; word < 2; ++word) {
    std::string heads;
    const std::vector<json> answers = model.sorted_answers(word);
    for (std::size_t i = 0; i < 5; ++i) {
      heads += fmt::format("{} {} {:.2f}", i == 0 ? "" : ",", answers[i].at("name").get<std::string>(),
                           answers[i].at("to").at(word).at("weight").get<float>());
    }
    CHECK(lines[28 + word] == fmt::format("Strongest on {}:{}", word == 0 ? "cat" : "was", heads));
  }
}

TEST_CASE("--from: --sort WORD sorts the heads by their weights on a word of --to") {
  const ManyHeads model;
  const std::vector<std::string> lines = model.page({"--sort", "was", "--top", "all"});
  const std::vector<json> answers = model.sorted_answers(1);
  REQUIRE(lines.size() == 6 + answers.size() + 3);
  for (std::size_t i = 0; i < answers.size(); ++i)
    CHECK_MESSAGE(lines[6 + i].starts_with(answers[i].at("name").get<std::string>() + " "), lines[6 + i]);
  CHECK(model.page({"--sort", "was"})[26] == "52 more heads: --top all");
  const std::vector<std::string> three = model.page({"--sort", "was", "--top", "3"});
  for (std::size_t i = 0; i < 3; ++i)
    CHECK_MESSAGE(three[6 + i].starts_with(answers[i].at("name").get<std::string>() + " "), three[6 + i]);
  CHECK(three[9] == "69 more heads: --top all");
  CHECK(model.page({"--sort", "was", "--top", "71"})[77] == "1 more head: --top all");
  CHECK(model.page({"--sort", "sat"}) == model.page({"--to", "sat", "--sort", "sat"}));
  const RunResult unknown = model.run({"--sort", "dog", "--format", "text"});
  CHECK(unknown.status == 2);
  CHECK(
      unknown.err ==
      "attnctl: --sort dog: the table of heads has no such column; attnctl explain lists the columns; nor is "
      "it a word of the text\n");
}

TEST_CASE("--from: the title names the token if --from is a position") {
  const std::vector<std::string> analyze = {"analyze", "data/tiny-bert", "The cat sat.", "--from", "2"};
  const auto shown = [&](const std::string& format) {
    std::vector<std::string> arguments = analyze;
    arguments.insert(arguments.end(), {"--format", format});
    return run_attnctl(arguments).out;
  };
  CHECK(shown("text").find("\nWhat \"cat\" looks at (input \"0\", position 2)\n") != std::string::npos);
  CHECK(shown("svg").find("What &quot;cat&quot; Looks At") != std::string::npos);
}

TEST_CASE("--from: JSON and CSV have all keys, and text 5, unless --top is given") {
  const ManyHeads model;  // 4 tokens
  const auto keys = [&](const std::vector<std::string>& more) {
    return model.answers(more).at(0).at("top").size();
  };
  CHECK(keys({}) == 4);
  CHECK(keys({"--top", "all"}) == 4);
  CHECK(keys({"--top", "2"}) == 2);
  const std::vector<std::string> bert = {"analyze", "data/tiny-bert", "a b c d e f", "--from", "1"};
  const json whole = json::parse(run_attnctl(bert).out);
  CHECK(whole.at("attention_from").at(0).at("top").size() == whole.at("inputs").at(0).at("length"));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--top", "all"}}) {
    std::vector<std::string> arguments = bert;
    arguments.insert(arguments.end(), {"--format", "text"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::vector<std::string> lines = lines_of(run_attnctl(arguments).out);
    CHECK(std::ranges::count(lines.at(6), ':') == 5);
  }
}

TEST_CASE("--from: a word of several pieces has its positions in the title and in JSON") {
  const std::vector<std::string> analyze = {"analyze", "data/tiny-bert", "The mechanic fixed it.", "--from",
                                            "fixed"};
  std::vector<std::string> text = analyze;
  text.insert(text.end(), {"--format", "text"});
  CHECK(run_attnctl(text).out.find("\nWhat \"fixed\" looks at (input \"0\", positions ") !=
        std::string::npos);
  CHECK(run_attnctl(text).out.find(", mean)\n") != std::string::npos);
  const json answer = json::parse(run_attnctl(analyze).out).at("attention_from").at(0);
  CHECK(answer.at("query_text") == "fixed");
  CHECK(answer.at("query_token") == "fix");
  REQUIRE(answer.at("queries").size() == 2);
  CHECK(answer.at("queries").at(0) == answer.at("query"));
}

TEST_CASE("--from: a layer has a row for its mean only if all its heads are selected") {
  const auto rows = [](const std::string& selection) {
    const std::string page = run_attnctl({"analyze", "data/tiny-bert", "The cat sat.", "--from", "cat",
                                          "--heads", selection, "--format", "text"})
                                 .out;
    return lines_of(page);
  };
  const auto has_mean = [](const std::vector<std::string>& lines, const std::string& row) {
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.starts_with(row); });
  };
  const std::vector<std::string> some = rows("0.1,1.0,1.1,1.2,1.3");
  CHECK(has_mean(some, "0.1 "));
  CHECK_FALSE(has_mean(some, "0 mean"));
  CHECK(has_mean(some, "1 mean"));
}

TEST_CASE("--show and --from: text has both, a picture is a usage error") {
  const std::vector<std::string> both = {"analyze", "data/tiny-bert", "The cat sat.", "--from",
                                         "cat",     "--show",         "0.1",          "--format"};
  const auto run = [&](const std::string& format) {
    std::vector<std::string> arguments = both;
    arguments.push_back(format);
    return run_attnctl(arguments);
  };
  CHECK(run("text").out.find("What \"cat\" looks at") != std::string::npos);
  CHECK(run("text").out.find("Pattern of 0.1") != std::string::npos);
  CHECK(run("svg").status == 2);
  CHECK(run("svg").err.find("--show and --from are two pictures") != std::string::npos);
}

TEST_CASE("--from: the error for a missing word lists the tokens") {
  const RunResult missing = run_attnctl({"analyze", "data/tiny-bert", "The cat sat.", "--from", "dog"});
  CHECK(missing.status == 2);
  CHECK_MESSAGE(missing.err.find(
                    "\"dog\" is not a word or token of the text (tokens: [CLS] the cat sat . [SEP]); give a "
                    "word, a token or a position; attnctl tokenize shows the tokens") != std::string::npos,
                missing.err);
}

TEST_CASE("--from and --to: a part of the text that is no word has the tokens of its characters") {
  const std::string text = "我喜欢猫和狗";
  const auto queries = [&](const std::string& model, const std::string& from) {
    const RunResult run =
        run_attnctl({"analyze", model, text, "--from", from, "--to", "猫和", "--format", "json"});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    CHECK_MESSAGE(run.err.find("part of the token") == std::string::npos, run.err);
    const json answer = json::parse(run.out).at("attention_from").at(0);
    CHECK(answer.at("to").size() == 1);
    return answer.contains("queries") ? answer.at("queries") : json::array({answer.at("query")});
  };
  CHECK(queries("data/tiny-llama", "猫") == json::array({10, 11, 12}));
  CHECK(queries("data/tiny-bert", "猫") == json::array({4}));
  CHECK(queries("data/tiny-bert", "猫和") == json::array({4, 5}));
}

TEST_CASE("--from: a part of a token gives a warning, and words of other inputs come first") {
  const auto warning = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"analyze", "data/tiny-bert", "--format", "text"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult run = run_attnctl(arguments);
    CHECK_MESSAGE(run.status == 0, run.err);
    return run.err;
  };
  CHECK(warning({"The cat sat.", "--from", "ca"})
            .find("--from: \"ca\" is part of the token cat at position 2") != std::string::npos);
  CHECK(warning({"The cat sat.", "--from", "sat", "--to", "ca"}).find("--to: \"ca\" is part of") !=
        std::string::npos);
  CHECK(warning({"The cat sat.", "--include", "rollout", "--rollout-from", "ca"})
            .find("--rollout-from: \"ca\" is part of") != std::string::npos);
  const TempDir folder;
  const std::string texts = folder.write("texts.txt", "The cat sat.\nA mat.\nHe sat at it.\n").string();
  const std::string err = warning({"--input", texts, "--from", "at"});
  CHECK_MESSAGE(err.find("--from: \"at\" is not in 2 of 3 inputs; first: input \"") != std::string::npos,
                err);
  CHECK_MESSAGE(err.find("is part of") == std::string::npos, err);
}

TEST_CASE("--from: the error for a missing occurrence says how often the word occurs") {
  const RunResult missing = run_attnctl({"analyze", "data/tiny-bert", "The cat sat.", "--from", "cat#2"});
  CHECK(missing.status == 2);
  CHECK_MESSAGE(missing.err.find("; \"cat\" occurs 1 time; give a word") != std::string::npos, missing.err);
}

TEST_CASE("--plot and --from are two pictures") {
  const TempDir folder;
  const RunResult both = run_attnctl({"analyze", "data/tiny-bert", "The cat sat.", "--from", "cat", "--plot",
                                      "entropy", "-o", (folder.path() / "x.svg").string()});
  CHECK(both.status == 2);
  CHECK(both.err ==
        "attnctl: --plot draws a column of heads, --from its own picture; leave out one of them\n");
}

TEST_CASE("text: the metrics of patterns come first, and the last line suggests --from and --show") {
  const auto page = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"analyze", "data/tiny-bert", "The cat sat.", "--format", "text"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attnctl(arguments).out;
  };
  const std::string shown = page({});
  CHECK(shown.find("\nHeads\n") < shown.find("\nEffective ranks of QK"));
  const std::string hint = "--from WORD shows what a word attends to, --show LAYER.HEAD a pattern\n";
  CHECK(shown.ends_with(hint));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--from", "cat"}, {"--show", "0.1"}, {"--include", "metrics"}})
    CHECK(page(more).find(hint) == std::string::npos);
}

TEST_CASE("the help of weights does not mention --from") {
  CHECK(run_attnctl({"weights", "--help"}).out.find("--from") == std::string::npos);
  CHECK(run_attnctl({"analyze", "--help"}).out.find("--from TOKEN") != std::string::npos);
}

TEST_CASE("--from: --include and --sort COLUMN add tables after the answer") {
  const ManyHeads model;
  const auto has_ranks = [](const std::vector<std::string>& lines) {
    return std::ranges::any_of(lines, [](const auto& line) { return line.starts_with("Effective ranks"); });
  };
  std::vector<std::string> lines = model.page({"--sort", "entropy"});
  CHECK(lines[4].starts_with("What "));
  CHECK(has_line(lines, "Heads"));
  CHECK(lines.back() == "52 more heads: --top all");
  CHECK_FALSE(has_ranks(lines));
  CHECK(has_ranks(model.page({"--sort", "qk_effective_rank"})));
  CHECK(has_line(model.page({"--columns", "entropy", "--top", "1"}), "head  entropy"));
  CHECK(has_ranks(model.page({"--columns", "entropy,qk_effective_rank"})));
  lines = model.page({"--include", "weights"});
  CHECK(lines[4].starts_with("What "));
  CHECK(has_ranks(lines));
  lines = model.page({"--include", "metrics", "--sort", "cat", "--top", "3"});
  CHECK(lines[lines.size() - 4].starts_with("0.0 "));  // the first of three heads in the order of the model
  CHECK(lines.back() == "69 more heads: --top all");
  const RunResult result = model.run({"--top", "none"});
  CHECK(result.status == 2);
  CHECK(result.err.find("--top: got none, need a positive number, or all") != std::string::npos);
}

TEST_CASE("--from: the table attention_from has the weights of the JSON records") {
  const ManyHeads model;
  const std::string folder = (model.folder().path() / "tables").string();
  REQUIRE(model.run({"--top", "2", "--format", "csv", "-o", folder}).status == 0);
  const std::vector<std::string> lines = lines_of(slurp(folder + "/attention_from.csv"));
  const json answers = model.answers({"--top", "2"});
  REQUIRE(lines.size() == 1 + 4 * answers.size());
  CHECK(lines[0] == "input,component,layer,head,name,query,query_token,kind,key,token,weight");
  std::size_t row = 1;
  const auto check_row = [&](const json& answer, const std::string& kind, std::size_t key,
                             const json& weighted) {
    const std::string start =
        fmt::format("0,,{},{},{},2,it,{},{},{},", answer.at("layer").get<int>(), answer.at("head").get<int>(),
                    answer.at("name").get<std::string>(), kind, key, weighted.at("token").get<std::string>());
    const std::string& line = lines[row++];
    REQUIRE_MESSAGE(line.starts_with(start), line);
    CHECK(std::strtof(line.substr(start.size()).c_str(), nullptr) == weighted.at("weight").get<float>());
  };
  for (const json& answer : answers) {
    for (const json& top : answer.at("top")) check_row(answer, "top", top.at("key").get<std::size_t>(), top);
    check_row(answer, "to", 0, answer.at("to").at(0));
    check_row(answer, "to", 3, answer.at("to").at(1));
  }
}

}  // namespace
