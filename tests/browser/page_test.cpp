#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "browser/axe.hpp"
#include "browser/browser_page.hpp"
#include "support/golden.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

// Pages that attnctl writes, in headless Chromium.
namespace attnctl::test {
namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

const std::string kText = "The cat sat because it was tired.";
const Arguments kTinyBert = {"analyze", "data/tiny-bert", kText};

/// A run of attnctl whose results are in a page and in an NPZ file.
class PageOfRun {
 public:
  explicit PageOfRun(Arguments arguments) : arguments_(std::move(arguments)) { write("page.html", {}); }

  void write(const std::string& file, const Arguments& more) {
    Arguments all = arguments_;
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"-o", path(file), "--quiet"});
    const RunResult run = run_attnctl(all);
    INFO(run.err);
    REQUIRE(run.status == 0);
  }
  [[nodiscard]] std::string path(const std::string& file) const { return (folder_.path() / file).string(); }

  void open(const std::string& fragment = "", PageOptions options = {}) {
    options.fragment = fragment;
    page.evaluate(
        "delete document.documentElement.dataset.ready, 0");  // a change of the fragment does not load
    page.open(path("page.html"), options);
    wait();
  }
  void wait() { page.wait_for("document.documentElement.dataset.ready"); }
  /// Waits until a change of the state, made by `action`, is shown.
  template <typename Action>
  void change(Action action) {
    const std::string before = page.evaluate("document.documentElement.dataset.ready").get<std::string>();
    action();
    page.wait_for("document.documentElement.dataset.ready !== '" + before + "'");
  }
  void show(const std::string& view) {
    change([&] { page.click("[data-view=" + view + "]"); });
    CHECK(page.evaluate("document.getElementById('main').dataset.view") == view);
  }
  [[nodiscard]] std::vector<std::string> views() {
    return page.evaluate("[...document.querySelectorAll('#views button')].map((each) => each.dataset.view)");
  }
  [[nodiscard]] std::string readout(const std::string& figure) {
    return page.evaluate("document.querySelector('[data-readout=" + figure + "]').textContent");
  }
  /// Checks that nothing failed, and that the page requested nothing.
  void check_quiet() {
    CHECK(page.console_messages() == std::vector<std::string>());
    CHECK(page.requests() == std::vector<std::string>());
    CHECK(page.evaluate("document.getElementById('main').innerText.includes('cannot be shown')") == false);
  }
  /// Returns the arrays of the same run.
  [[nodiscard]] Golden arrays(const Arguments& more = {"--include", "patterns"}) {
    write("golden.npz", more);
    return Golden(folder_.path());
  }

  BrowserPage page;

 private:
  Arguments arguments_;
  TempDir folder_;
};

/// Compares the patterns of all heads on one input with an array of an NPZ file: [..., queries, keys].
void compare_patterns(PageOfRun& run, std::size_t place, const GoldenArray& expected, bool words = false) {
  const double error = run.page.evaluate(fmt::format("attnctl.error({})", place));
  CHECK(error >= 0);
  CHECK(error < 0.002);
  const json all = run.page.evaluate(fmt::format(
      "Promise.all(attnctl.page.attention[{}].heads.map((head) => attnctl.pattern(head.name, {}, {})))",
      place, place, words));
  std::size_t index = 0;
  double difference = 0;
  for (const json& head : all) {
    for (const json& row : head) {
      for (const json& weight : row)
        difference = std::max(difference, std::abs(weight.get<double>() - expected.values.at(index++)));
    }
  }
  CHECK(index == expected.values.size());
  CHECK(difference <= (words ? 4 : 1) * error + 1e-7);  // a word sums the weights of its tokens
}

/// The models of the test: those of the project, and real ones where they are installed.
struct TestedModel {
  const char* name;
  Arguments arguments;
  std::vector<std::string> patterns;  // arrays in NPZ, one for each attention of the page
  bool shared = false;
};

const std::vector<TestedModel>& tested_models() {
  const std::string shared = ATTNCTL_SHARED_DIR;
  static const std::vector<TestedModel> models = {
      {"tiny-bert", kTinyBert, {"pattern_0"}},
      {"tiny-llama", {"analyze", "data/tiny-llama", "--ids", "5,6,7,8,5,6"}, {"pattern_0"}},
      {"several inputs",
       {"analyze", "data/tiny-bert", "The cat sat.", "A dog ran away."},
       {"pattern_0", "pattern_1"}},
      {"encoder-decoder",
       {"analyze", "tests/golden/t5", "--ids", "5,6,7,8", "--target-ids", "0,3,4"},
       {"enc_pattern_0", "dec_pattern_0", "cross_pattern_0"}},
      {"bare attention",
       {"analyze", "data/attention-demo.json", "--input", "data/sentences.jsonl"},
       {"pattern_0"}},
      {"stories15M", {"analyze", shared + "/models/stories15M", "Once upon a time"}, {"pattern_0"}, true},
      {"rxnmapper", {"analyze", shared + "/models/rxnmapper-albert", "CC(=O)O"}, {"pattern_0"}, true}};
  return models;
}

TEST_CASE("every view of every kind of model opens, and shows the weights of the NPZ file") {
  for (const TestedModel& model : tested_models()) {
    INFO(model.name);
    if (model.shared && !std::filesystem::exists(model.arguments[1])) {
      MESSAGE("skipped: no model ", model.name);
      continue;
    }
    PageOfRun run(model.arguments);
    run.open();
    for (const std::string& view : run.views()) {
      CAPTURE(view);
      run.show(view);
      CHECK(run.page.evaluate("document.querySelectorAll('main canvas, main table, main dl').length")
                .get<int>() > 0);
    }
    CHECK(run.views().front() == "model");
    const Golden golden = run.arrays();
    for (std::size_t i = 0; i < model.patterns.size(); ++i)
      compare_patterns(run, i, golden.array(model.patterns[i]));
    run.check_quiet();
  }
}

TEST_CASE("the neuron view shows the vectors and scores of the run") {
  for (const Arguments& arguments :
       {kTinyBert, Arguments{"analyze", "data/tiny-llama", "--ids", "5,6,7,8,5"}}) {
    PageOfRun run(arguments);
    const Golden golden = run.arrays({"--include", "queries,keys,scores"});
    run.open("view=neuron&head=1.1&query=2&key=1");
    const json neurons = run.page.evaluate(
        "attnctl.neurons('1.1').then(({queries, keys, scores, scale}) => [Array.from(queries.row(2)), "
        "Array.from(keys.row(1)), scores.at(2, 1), scale])");
    const GoldenArray queries = golden.array("queries_0"), keys = golden.array("keys_0"),
                      scores = golden.array("scores_0");
    // The arrays have the axes [layers, heads, positions, width].
    const auto at = [](const GoldenArray& array, std::size_t head, std::size_t row, std::size_t column) {
      const Shape& shape = array.shape;
      return array.values.at(((shape[1] + head) * shape[2] + row) * shape[3] + column);
    };
    double dot = 0;
    const std::size_t group = queries.shape[1] / keys.shape[1];
    for (std::size_t i = 0; i < queries.shape[3]; ++i) {
      CHECK(neurons[0][i].get<double>() == doctest::Approx(at(queries, 1, 2, i)));
      CHECK(neurons[1][i].get<double>() == doctest::Approx(at(keys, 1 / group, 1, i)));
      dot += at(queries, 1, 2, i) * at(keys, 1 / group, 1, i);
    }
    CHECK(neurons[2].get<double>() == doctest::Approx(at(scores, 1, 2, 1)));
    CHECK(neurons[2].get<double>() == doctest::Approx(dot * neurons[3].get<double>()).epsilon(1e-4));
    // The row of key 1: q k, times scale, position, score, softmax, weight.
    const json cells = run.page.evaluate(
        "[...document.querySelectorAll('[data-row=\"1\"] td')].map((cell) => Number(cell.textContent))");
    CHECK(cells[0].get<double>() == doctest::Approx(dot).epsilon(1e-3));
    CHECK(cells[3].get<double>() == doctest::Approx(at(scores, 1, 2, 1)).epsilon(1e-3));
    CHECK(cells[4].get<double>() == doctest::Approx(cells[5].get<double>()).epsilon(2e-3));
    run.check_quiet();
  }
}

TEST_CASE("words have the weights of --by-word") {
  PageOfRun run({"analyze", "data/tiny-bert", "The mechanic mended the machinery."});
  run.open("unit=word");
  const Golden golden = run.arrays({"--include", "patterns", "--by-word"});
  compare_patterns(run, 0, golden.array("pattern_0"), true);
  run.change([&] {
    run.page.evaluate(
        "document.querySelector('[data-state=unit]').value = 'token', "
        "document.querySelector('[data-state=unit]').dispatchEvent(new Event('change')), 0");
  });
  CHECK(run.page.evaluate("location.hash") == "");
}

TEST_CASE("a change between tokens and words keeps the query and the key") {
  PageOfRun run({"analyze", "data/tiny-bert", "The mechanic mended the machinery."});
  run.open("view=query");
  const auto label = [&](const std::string& name) {
    return run.page.evaluate("document.querySelector('[data-" + name + "][aria-pressed=true]').title")
        .get<std::string>();
  };
  const int last = run.page.evaluate("document.querySelectorAll('[data-query]').length").get<int>() - 1;
  run.change([&] { run.page.click(fmt::format("[data-query='{}']", last)); });
  run.change([&] { run.page.click("[data-key='1']"); });
  const std::string query = label("query"), key = label("key");
  const auto set_unit = [&](const std::string& unit) {
    run.change([&] {
      run.page.evaluate(
          "document.querySelector('[data-state=unit]').value = '" + unit +
          "', document.querySelector('[data-state=unit]').dispatchEvent(new Event('change')), 0");
    });
  };
  set_unit("word");
  CHECK(label("query").substr(label("query").find(' ')) == query.substr(query.find(' ')));
  CHECK(label("query") != query);  // there are fewer words than tokens
  set_unit("token");
  CHECK(label("query") == query);
  CHECK(label("key") == key);
}

TEST_CASE("a matrix shows the value under the mouse and at the keyboard's cell") {
  PageOfRun run(kTinyBert);
  const GoldenArray patterns = run.arrays().array("pattern_0");
  run.open("view=matrix&head=0.3");
  const auto check_readout = [&] {
    const std::string text = run.readout("matrix");
    CAPTURE(text);
    const std::regex form("Head 0\\.3: query (\\d+) .* key (\\d+) .*: ([0-9.e+-]+)");
    std::smatch found;
    REQUIRE(std::regex_match(text, found, form));
    const std::size_t n = patterns.shape.back();
    const double expected = patterns.values.at((3 * n + std::stoul(found[1])) * n + std::stoul(found[2]));
    CHECK(std::stod(found[3]) == doctest::Approx(expected).epsilon(1e-3));
    return std::pair(std::stoul(found[1]), std::stoul(found[2]));
  };
  run.page.hover("[data-figure=matrix]");
  const auto [query, key] = check_readout();
  run.change([&] { run.page.click("[data-figure=matrix]"); });  // a click chooses the query and the key
  CHECK(run.page.evaluate("location.hash") ==
        fmt::format("#view=matrix&head=0.3&query={}&key={}", query, key));
  CHECK(check_readout() == std::pair(query, key));  // the value stays
  run.page.evaluate("document.querySelector('[data-figure=matrix]').focus(), 0");
  run.page.key("ArrowDown");
  run.page.key("ArrowRight");
  CHECK(check_readout() == std::pair(query + 1, key + 1));
  run.change([&] { run.page.key("Enter"); });
  CHECK(run.page.evaluate("location.hash") ==
        fmt::format("#view=matrix&head=0.3&query={}&key={}", query + 1, key + 1));
  CHECK(run.page.evaluate("document.activeElement.dataset.figure") == "matrix");
  run.page.key("ArrowLeft");
  CHECK(check_readout() == std::pair(query + 1, key));
  run.check_quiet();
}

TEST_CASE("a click on a head of the model opens it, and selected heads are marked in all views") {
  PageOfRun run(kTinyBert);
  run.open();
  run.page.evaluate("document.querySelector('[data-figure=model]').focus(), 0");
  run.page.key("ArrowRight");
  run.page.key("ArrowRight");
  CHECK(run.readout("model") == "Head 0.1");
  run.change([&] { run.page.key("s"); });
  CHECK(run.page.evaluate("location.hash") == "#head=0.1&heads=0.1");
  run.show("tables");
  CHECK(run.page.evaluate("document.querySelectorAll('tr.selected').length") == 1);
  run.change([&] { run.page.click("[data-head='1.2']"); });
  for (const char* const view : {"model", "heads", "query", "grid", "pictures", "tables"}) {
    run.show(view);
    CHECK(run.page.evaluate(
              "[...document.querySelectorAll('[data-selected]')].map((each) => each.dataset.selected)") ==
          json({"0.1", "1.2"}));
  }
  run.change([&] { run.page.click("[data-clear]"); });
  CHECK(run.page.evaluate("document.querySelectorAll('[data-selected]').length") == 0);
  run.show("model");
  run.change([&] { run.page.click("[data-figure=model]"); });
  CHECK(run.page.evaluate("document.getElementById('main').dataset.view") == "matrix");
  run.check_quiet();
}

TEST_CASE("the query view sorts heads by their weight on a key") {
  PageOfRun run(kTinyBert);
  const GoldenArray patterns = run.arrays().array("pattern_0");
  run.open("view=query");
  run.change([&] { run.page.click("[data-query='7']"); });
  run.change([&] { run.page.click("[data-key='2']"); });
  CHECK(run.page.evaluate("location.hash") == "#view=query&query=7&key=2");
  const std::size_t n = patterns.shape.back();
  double largest = 0;
  for (std::size_t head = 0; head < patterns.values.size() / (n * n); ++head)
    largest = std::max(largest, patterns.values[(head * n + 7) * n + 2]);
  run.page.evaluate("document.querySelector('[data-figure=query]').focus(), 0");
  for (const char* const key : {"ArrowRight", "ArrowRight", "ArrowRight"}) run.page.key(key);
  const std::string text = run.readout("query");  // the first row is the head with the largest weight
  CAPTURE(text);
  CHECK(std::stod(text.substr(text.rfind(' '))) == doctest::Approx(largest).epsilon(1e-3));
}

TEST_CASE("the head view shows the lines of a query under the mouse, and a click locks it") {
  PageOfRun run(kTinyBert);
  run.open("view=heads&heads=0.3,1.0");
  run.page.evaluate("document.querySelector('[data-figure=heads]').focus(), 0");
  run.page.key("ArrowDown");
  run.page.key("ArrowDown");
  const std::string lines = run.readout("heads");
  CHECK(lines.starts_with("0.3: the attends to "));
  CHECK(lines.find("\n1.0: the attends to ") != std::string::npos);
  run.change([&] { run.page.key("Enter"); });
  CHECK(run.page.evaluate("location.hash") == "#view=heads&heads=0.3%2C1.0&query=1&locked=1");
  run.check_quiet();
}

TEST_CASE("tables can be sorted and filtered, and explain their columns") {
  PageOfRun run(kTinyBert);
  run.open("view=tables");
  const auto column = [&](const std::string& name) {
    return run.page
        .evaluate(
            "[...document.querySelectorAll('tbody tr')].map((row) => Number(row.cells["
            "[...document.querySelectorAll('thead th')].findIndex((cell) => cell.querySelector('[data-sort=" +
            name + "]'))].textContent))")
        .get<std::vector<double>>();
  };
  run.change([&] { run.page.click("[data-sort=entropy]"); });
  std::vector<double> values = column("entropy");
  CHECK(values.size() == 12);
  CHECK(std::ranges::is_sorted(values, std::greater<>()));
  run.change([&] { run.page.click("[data-sort=entropy]"); });
  values = column("entropy");
  CHECK(std::ranges::is_sorted(values));
  CHECK(run.page.evaluate("document.querySelectorAll('[aria-sort=ascending]').length") == 1);
  run.page.click("[data-explain=entropy]");
  const std::string about =
      run.page.evaluate("document.querySelector('[data-definition=entropy]').textContent");
  for (const char* const part : {"nats", "ln keys", "Clark et al. 2019"})
    CHECK(about.find(part) != std::string::npos);
  run.check_quiet();
}

TEST_CASE("the roles of a study can be filtered, and the grid has their intervals and nulls") {
  PageOfRun run(
      {"study", "data/tiny-bert", "--input", "data/treebank.conllu", "--measures", "positional,roles"});
  run.open("view=tables&table=roles");
  run.page.click("[data-state=filter]");
  for (const char* const key : {"O", "F", "F", "S", "E", "T"}) run.page.key(key);
  run.change([&] { run.page.key("Enter"); });
  CHECK(run.page.evaluate("document.querySelectorAll('tbody tr').length") == 0);
  run.open("view=tables&table=roles&filter=%2B1");
  const json heads = run.page.evaluate(
      "[...document.querySelectorAll('tbody [data-head]')].map((each) => each.dataset.head)");
  CHECK(heads == json::array({"0.0"}));
  run.open("view=grid&table=roles&column=role");
  run.page.evaluate("document.querySelector('[data-figure=grid]').focus(), 0");
  run.page.key("ArrowRight");
  const std::string text = run.readout("grid");
  for (const char* const part : {"name: 0.0", "role: positional", "score: ", "null: ", "low: ", "high: "})
    CHECK(text.find(part) != std::string::npos);
  run.check_quiet();
}

TEST_CASE("a page of two models shows the change of each head, and differences by column") {
  PageOfRun run({"compare", "data/tiny-llama", "data/tiny-llama", "--input", "data/treebank.conllu",
                 "--measures", "metrics,roles"});
  run.open();
  CHECK(run.views() == std::vector<std::string>{"grid", "pictures", "tables", "about"});
  for (const std::string& view : run.views()) {
    CAPTURE(view);
    run.show(view);
  }
  const auto label = [&] { return run.page.evaluate("document.getElementById('main').innerText"); };
  run.show("grid");
  CHECK(label().get<std::string>().find("qk_change of each head") != std::string::npos);
  run.open("view=grid&table=differences&part=table heads, column entropy");
  CHECK(label().get<std::string>().find("difference of each head (table heads, column entropy)") !=
        std::string::npos);
  run.check_quiet();
}

TEST_CASE("pictures can be copied as SVG and saved, and the command of a view runs") {
  PageOfRun run(kTinyBert);
  for (const std::string fragment :
       {"view=model", "view=matrix&head=0.3", "view=matrix&head=0.3&unit=word", "view=heads&query=5",
        "view=query&query=5&key=2", "view=neuron", "view=grid&column=entropy", "view=pictures", "view=tables",
        "view=about"}) {
    CAPTURE(fragment);
    run.open(fragment);
    run.page.click("[data-tool=command]");
    run.page.wait_for("document.getElementById('status').textContent.startsWith('Copied')");
    std::string command = run.page.clipboard_text();
    CAPTURE(command);
    CHECK(command.starts_with("attnctl analyze data/tiny-bert "));
    const TempDir folder;
    const RunResult result = run_shell("cd " + folder.path().string() + " && ln -s " + ATTNCTL_SOURCE_DIR +
                                       "/data data && " + command);
    CHECK(result.status == 0);
    CHECK(result.err == "");
    if (!run.page.evaluate("document.querySelector('[data-tool=svg]') !== null").get<bool>()) continue;
    run.page.evaluate("document.getElementById('status').textContent = '', 0");
    run.page.click("[data-tool=svg]");
    run.page.wait_for("document.getElementById('status').textContent.startsWith('Copied')");
    const std::string svg = run.page.clipboard_text();
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(run.page.evaluate("new DOMParser().parseFromString(" + json(svg).dump() +
                            ", 'image/svg+xml').querySelector('parsererror') === null") == true);
    run.page.click("[data-tool=png]");
    run.page.wait_for("document.getElementById('status').textContent.startsWith('Saved attnctl-')");
    run.check_quiet();
  }
}

TEST_CASE("colours follow the system, the choice and the paper") {
  PageOfRun run(kTinyBert);
  const auto is_dark = [&] {
    return run.page.evaluate("document.documentElement.classList.contains('dark')");
  };
  run.open("", {.dark = true});
  CHECK(is_dark() == true);
  run.change([&] { run.page.emulate_print(true); });
  CHECK(is_dark() == false);
  CHECK(run.page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none");
  run.change([&] { run.page.emulate_print(false); });
  run.open("theme=light", {.dark = true});
  CHECK(is_dark() == false);
  run.open("theme=dark");
  CHECK(is_dark() == true);
  run.change([&] { run.page.emulate_print(true); });
  CHECK(is_dark() == false);
}

TEST_CASE("pages pass axe-core, light and dark") {
  struct Case {
    Arguments arguments;
    bool dark;
  };
  for (const Case& c : {Case{kTinyBert, false}, Case{kTinyBert, true},
                        Case{{"study", "data/tiny-bert", "--input", "data/treebank.conllu"}, false},
                        Case{{"compare", "data/tiny-llama", "data/tiny-llama"}, false},
                        Case{{"experiment", "averaging", "--targets", "3"}, true}}) {
    PageOfRun run(c.arguments);
    run.open("heads=0.3", {.dark = c.dark});
    for (const std::string& view : run.views()) {
      CAPTURE(view);
      run.show(view);
      const auto violations = axe_violations(run.page);
      if (!violations) return;
      CHECK(fmt::format("{}", fmt::join(*violations, "\n")) == "");
    }
    run.check_quiet();
  }
}

TEST_CASE("texts of a model and an input are shown as they are, and run nothing") {
  const TempDir folder;
  const std::vector<std::string> tokens = {"</script><img src=x onerror=alert(1)>",
                                           "<!-- <script>",
                                           "\u05e9\u05dc\u05d5\u05dd",
                                           "\U0001F600",
                                           "e\u0301\u0323",
                                           "&lt;b&gt;\"'`",
                                           "\u202eabc",
                                           ""};
  json weights = {{"config", {{"model_type", "attention"}, {"heads", 1}, {"vocab", tokens}}}};
  std::vector<std::vector<double>> square(8, std::vector<double>(8, 0)), embedding = square;
  for (std::size_t i = 0; i < 8; ++i) square[i][i] = embedding[i][i] = 1;
  for (const char* const name : {"W_q", "W_k", "W_v", "W_o"}) weights[name] = square;
  weights["embedding"] = embedding;
  const std::string model = folder.write("</title><script>alert(2)</script>.json", weights.dump()).string();
  PageOfRun run({"analyze", model, "--ids", "0,1,2,3,4,5,6,7"});
  run.open();
  for (const std::string& view : run.views()) run.show(view);
  run.show("query");
  const json titles =
      run.page.evaluate("[...document.querySelectorAll('[data-query]')].map((each) => each.title)");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string title = titles[i];
    CHECK(title.substr(title.find(' ') + 1) == (tokens[i].empty() ? "#7" : tokens[i]));
  }
  // A copied command has no control character, which a terminal would obey.
  CHECK(run.page.evaluate("shellWord('a\\x03;touch x\\n')") == "$'a\\u0003;touch x\\u000a'");
  CHECK(run.page.evaluate("shellWord(\"it's\")") == "'it'\\''s'");
  CHECK(run.page.evaluate("document.querySelectorAll('img, script:not([type]), iframe, object').length") ==
        1);
  CHECK(
      run.page.evaluate("document.getElementById('title').textContent").get<std::string>().find("alert(2)") !=
      std::string::npos);
  run.check_quiet();
}

TEST_CASE("empty, long and unbroken texts are shown") {
  for (const Arguments& arguments : {Arguments{"analyze", "data/tiny-bert", "--text", ""},
                                     Arguments{"analyze", "data/tiny-llama", "--text", std::string(120, 'x')},
                                     Arguments{"analyze", "data/tiny-bert", std::string(1000, 'a')}}) {
    PageOfRun run(arguments);
    run.open("", {.width = 390, .height = 800});
    for (const std::string& view : run.views()) {
      CAPTURE(view);
      run.show(view);
      // The page itself never scrolls sideways; wide figures scroll in their own frame.
      CHECK(run.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth") == true);
    }
    run.check_quiet();
  }
}

TEST_CASE("a page of a ViT shows the weights over the image") {
  const TempDir folder;
  const Golden golden(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/vit");
  const GoldenArray pixels = golden.array("pixels_0");
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}, {}), }}",
                                   pixels.shape[0], pixels.shape[1], pixels.shape[2]);
  header.resize(117, ' ');
  std::string npy = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
  for (const double pixel : pixels.values) {
    const auto value = static_cast<float>(pixel);
    npy.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  PageOfRun run({"analyze", "tests/golden/vit", "--pixels", folder.write("pixels.npy", npy).string()});
  run.open("view=query&query=0");
  run.page.evaluate("document.querySelector('[data-figure=image]').focus(), 0");
  run.page.key("ArrowRight");
  const GoldenArray patterns = run.arrays().array("pattern_0");
  const std::string text = run.readout("image");
  CAPTURE(text);
  CHECK(text.starts_with("patch 0,0: "));
  CHECK(std::stod(text.substr(text.rfind(' '))) == doctest::Approx(patterns.values[1]).epsilon(1e-3));
  for (const std::string& view : run.views()) run.show(view);
  run.check_quiet();
}

TEST_CASE("a thousand tokens without a space are shown") {
  const TempDir folder;
  json weights = {
      {"config", {{"model_type", "attention"}, {"heads", 1}, {"vocab", {std::string(300, 'w'), "x"}}}}};
  const std::vector<std::vector<double>> unit = {{1, 0}, {0, 1}};
  for (const char* const name : {"W_q", "W_k", "W_v", "W_o", "embedding"}) weights[name] = unit;
  std::string ids = "0";
  for (int i = 1; i < 1000; ++i) ids += i % 3 == 0 ? ",0" : ",1";
  PageOfRun run({"analyze", folder.write("model.json", weights.dump()).string(), "--ids", ids});
  run.open("", {.width = 390, .height = 800});
  for (const std::string& view : run.views()) {
    CAPTURE(view);
    run.show(view);
    CHECK(run.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth") ==
          true);
  }
  compare_patterns(run, 0, run.arrays().array("pattern_0"));
  run.check_quiet();
}

// Not a test: scripts/screenshots sets the variable, and makes the pictures of docs/page.md of these files.
TEST_CASE("screenshots of all views") {
  const char* const folder = std::getenv("ATTNCTL_SCREENSHOTS");
  if (folder == nullptr) return;
  PageOfRun run({"analyze", "data/tiny-bert", kText, "--include",
                 "metrics,patterns,weights,queries,keys,scores,map,rollout", "--across-layers", "--order",
                 "cluster"});
  for (const bool dark : {false, true}) {
    for (const int width : {1280, 390}) {
      const PageOptions options{.width = width, .height = width == 390 ? 900 : 860, .dark = dark};
      run.open("head=0.3&other=1.0&query=7&key=2&heads=0.3,1.2&colour=entropy", options);
      int number = 0;
      for (const std::string& view : run.views()) {
        run.show(view);
        run.page.evaluate("new Promise((done) => setTimeout(done, 300))");  // patterns are decoded
        run.page.screenshot(
            fmt::format("{}/{}-{}-{:02}-{}.png", folder, dark ? "dark" : "light", width, number++, view));
      }
    }
  }
}

/// Writes a model of the family `attention` with 12 layers of 12 heads, and returns its path. Its patterns
/// are spread over all keys, so that they are hard to compress.
std::string large_model(const TempDir& folder, std::size_t tokens) {
  constexpr std::size_t kWidth = 48;
  std::mt19937 random(1);
  const auto matrix = [&](std::size_t rows, double size) {
    std::vector<std::vector<double>> values(rows, std::vector<double>(kWidth));
    for (std::vector<double>& row : values) {
      for (double& value : row) value = size * (static_cast<double>(random() % 2001) / 1000 - 1);
    }
    return values;
  };
  json weights = {{"config", {{"model_type", "attention"}, {"heads", 12}, {"layers", 12}}}};
  weights["embedding"] = matrix(tokens, 1.7);
  for (int layer = 0; layer < 12; ++layer) {
    for (const char* const name : {"W_q", "W_k", "W_v", "W_o"})
      weights[fmt::format("layers.{}.{}", layer, name)] =
          matrix(kWidth, name[2] == 'q' || name[2] == 'k' ? 0.25 : 0.17);
  }
  return folder.write("large.json", weights.dump()).string();
}

TEST_CASE("pages of 144 heads keep their size and open") {
  const TempDir folder;
  const std::string model = large_model(folder, 512);
  const auto ids = [](std::size_t count) {
    std::string list = "0";
    for (std::size_t i = 1; i < count; ++i) list += fmt::format(",{}", i);
    return list;
  };
  const auto megabytes = [](const PageOfRun& run, const std::string& file) {
    return static_cast<double>(std::filesystem::file_size(run.path(file))) / 1e6;
  };
  PageOfRun run({"analyze", model, "--ids", ids(128)});
  CHECK(megabytes(run, "page.html") <= 8);
  run.open();
  run.page.wait_for("performance.getEntriesByName('drawn').length > 0");
  MESSAGE("144 heads x 128 tokens: drawn after ",
          run.page.evaluate("performance.getEntriesByName('drawn')[0].startTime").get<double>(), " ms, ",
          megabytes(run, "page.html"), " MB");
  compare_patterns(run, 0, run.arrays().array("pattern_0"));
  PageOfRun large({"analyze", model, "--ids", ids(512), "--include", "patterns"});
  CHECK(megabytes(large, "page.html") <= 45);
  large.write("kept.html", {"--page-top-k", "32"});
  CHECK(megabytes(large, "kept.html") <= 12);
  const RunResult refused = run_attnctl({"analyze", model, "--ids", ids(512), "--include", "patterns", "-o",
                                         large.path("refused.html"), "--page-limit", "1M"});
  CHECK(refused.status == 5);
  for (const char* const part : {"--page-limit allows 1048576", "--page-top-k 32", "--layers"})
    CHECK(refused.err.find(part) != std::string::npos);
  CHECK(!std::filesystem::exists(large.path("refused.html")));
  run.check_quiet();
}

TEST_CASE("a page with --page-top-k has the largest weights of each query") {
  PageOfRun run({"analyze", "data/tiny-bert", kText, "--page-top-k", "3"});
  run.open("view=matrix");
  const GoldenArray patterns = run.arrays().array("pattern_0");
  const std::size_t n = patterns.shape.back();
  const json head = run.page.evaluate("attnctl.pattern('0.0')");
  for (std::size_t query = 0; query < n; ++query) {
    std::vector<double> row(patterns.values.begin() + static_cast<std::ptrdiff_t>(query * n),
                            patterns.values.begin() + static_cast<std::ptrdiff_t>((query + 1) * n));
    std::vector<double> sorted = row;
    std::ranges::sort(sorted, std::greater<>());
    for (std::size_t key = 0; key < n; ++key) {
      const double shown = head[query][key];
      CHECK(shown == doctest::Approx(row[key] >= sorted[2] ? row[key] : 0).epsilon(1e-4));
    }
  }
  CHECK(run.page.evaluate(
            "document.getElementById('main').innerText.includes('Only the 3 largest weights')") == true);
}

}  // namespace
}  // namespace attnctl::test
