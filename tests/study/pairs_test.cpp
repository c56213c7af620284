#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "analysis/similarity/head_pairs.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "study/measure.hpp"
#include "study/state/sums.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {

using namespace study;

namespace {

using nlohmann::json;

const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const std::string kCorpus = ATTNCTL_SOURCE_DIR "/tests/golden/study/corpus.txt";

json study(const std::string& input, const std::vector<std::string>& more, const std::string& warning = "") {
  std::vector<std::string> words = {"study", kLlama, "--input", input, "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const RunResult result = run_attnctl(words);
  CHECK(result.err == warning);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

/// Returns random patterns, [heads, rows * keys]. Each row sums to 1.
std::vector<float> random_patterns(std::size_t heads, std::size_t rows, std::size_t keys) {
  Random random(5);
  std::vector<float> values(heads * rows * keys);
  for (std::size_t first = 0; first < values.size(); first += keys) {
    double sum = 0;
    for (std::size_t j = first; j < first + keys; ++j) {
      values[j] = static_cast<float>(std::exp(2 * random.normal()));
      sum += static_cast<double>(values[j]);
    }
    for (std::size_t j = first; j < first + keys; ++j)
      values[j] = static_cast<float>(static_cast<double>(values[j]) / sum);
  }
  return values;
}

double entropy_term(double p) {
  return p > 0 ? -p * std::log(p) : 0;
}

TEST_CASE("pattern_pairs agrees with naive sums") {
  const std::size_t heads = 5;
  const std::size_t weights = 130 * 17;  // more than one chunk of the summation
  const std::vector<float> patterns = random_patterns(heads, 130, 17);
  const analysis::PatternPairs pairs = analysis::pattern_pairs(patterns, heads);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = a; b < heads; ++b) {
      double divergence = 0;
      double product = 0;
      for (std::size_t i = 0; i < weights; ++i) {
        const auto p = static_cast<double>(patterns[a * weights + i]);
        const auto q = static_cast<double>(patterns[b * weights + i]);
        divergence += entropy_term((p + q) / 2) - (entropy_term(p) + entropy_term(q)) / 2;
        product += p * q;
      }
      CHECK(pairs.divergence[analysis::pair_index(heads, a, b)] == doctest::Approx(divergence).epsilon(1e-6));
      CHECK(pairs.product[analysis::pair_index(heads, a, b)] == doctest::Approx(product).epsilon(1e-6));
    }
  }
}

TEST_CASE("the divergence is 0 for equal heads and ln 2 per row for heads without a common key") {
  const std::size_t rows = 300;
  const std::size_t keys = 8;
  std::vector<float> one = random_patterns(1, rows, keys);
  std::vector<float> patterns = one;
  patterns.insert(patterns.end(), one.begin(), one.end());
  CHECK(analysis::pattern_pairs(patterns, 2).divergence[analysis::pair_index(2, 0, 1)] == 0);
  for (std::size_t i = 0; i < rows * keys; ++i) {
    patterns[i] = i % keys == 2 ? 1.0F : 0.0F;
    patterns[rows * keys + i] = i % keys == 5 ? 1.0F : 0.0F;
  }
  const analysis::PatternPairs apart = analysis::pattern_pairs(patterns, 2);
  CHECK(apart.divergence[analysis::pair_index(2, 0, 1)] ==
        doctest::Approx(rows * std::numbers::ln2).epsilon(1e-6));
  CHECK(apart.product[analysis::pair_index(2, 0, 1)] == 0);
}

TEST_CASE("permuted heads have permuted pairs") {
  const std::size_t heads = 4;
  const std::size_t weights = 40 * 9;
  const std::array<std::size_t, heads> order = {2, 0, 3, 1};
  const std::vector<float> patterns = random_patterns(heads, 40, 9);
  std::vector<float> moved;
  for (const std::size_t h : order) {
    const auto* const from = patterns.data() + h * weights;
    moved.insert(moved.end(), from, from + weights);
  }
  const analysis::PatternPairs before = analysis::pattern_pairs(patterns, heads);
  const analysis::PatternPairs after = analysis::pattern_pairs(moved, heads);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = a; b < heads; ++b) {
      const std::size_t was =
          analysis::pair_index(heads, std::min(order[a], order[b]), std::max(order[a], order[b]));
      CHECK(after.divergence[analysis::pair_index(heads, a, b)] == doctest::Approx(before.divergence[was]));
      CHECK(after.product[analysis::pair_index(heads, a, b)] == doctest::Approx(before.product[was]));
    }
  }
}

/// Returns outputs of three heads with 3, 5 and 3 columns. The second head is partly a copy of the first; the
/// third is the first rotated, scaled and shifted.
std::vector<std::vector<float>> some_outputs(std::size_t rows) {
  Random random(7);
  std::vector<std::vector<float>> outputs(rows);
  for (std::vector<float>& output : outputs) {
    std::array<double, 8> row{};
    for (double& value : row) value = random.normal();
    for (std::size_t c = 0; c < 3; ++c) row[3 + c] = 0.7 * row[3 + c] + row[c];
    for (const double value : row) output.push_back(static_cast<float>(value));
    const double turned = 0.6 * row[0] - 0.8 * row[1];
    const double other = 0.8 * row[0] + 0.6 * row[1];
    for (const double value : {turned, other, row[2]}) output.push_back(static_cast<float>(3 * value + 20));
  }
  return outputs;
}

/// Returns HSIC by equation 5 of Song et al. 2012, computed from full kernel matrices.
double naive_hsic(const analysis::HeadOutputs& outputs, std::size_t a, std::size_t b) {
  const std::size_t n = outputs.rows.size();
  const auto kernel = [&](std::size_t head, std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t c = outputs.columns[head]; c < outputs.columns[head + 1]; ++c)
      sum += static_cast<double>(outputs.rows[i][c]) * static_cast<double>(outputs.rows[j][c]);
    return i == j ? 0 : sum;
  };
  double trace = 0;
  double through = 0;
  std::vector<double> sums_a(n), sums_b(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      trace += kernel(a, i, j) * kernel(b, j, i);
      sums_a[i] += kernel(a, i, j);
      sums_b[i] += kernel(b, i, j);
    }
    through += sums_a[i] * sums_b[i];
  }
  const auto total = [](const std::vector<double>& sums) {
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  };
  const auto m = static_cast<double>(n);
  return (trace + total(sums_a) * total(sums_b) / ((m - 1) * (m - 2)) - 2 / (m - 2) * through) /
         (m * (m - 3));
}

TEST_CASE("output_pairs agrees with HSIC of full kernel matrices, also for shifted and rotated outputs") {
  for (const std::size_t rows : {analysis::kLeastOutputs, std::size_t{60}}) {
    CAPTURE(rows);
    const std::vector<std::vector<float>> values = some_outputs(rows);
    const analysis::HeadOutputs outputs{.columns = {0, 3, 8, 11}, .rows = {values.begin(), values.end()}};
    const std::vector<double> pairs = analysis::output_pairs(outputs);
    const auto of = [&](std::size_t a, std::size_t b) { return pairs[analysis::pair_index(3, a, b)]; };
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = a; b < 3; ++b) {
        const double scale = std::sqrt(of(a, a) * of(b, b));
        CHECK(std::abs(of(a, b) - naive_hsic(outputs, a, b)) <= 1e-4 * std::abs(scale));
      }
    }
    CHECK(of(0, 2) / std::sqrt(of(0, 0) * of(2, 2)) == doctest::Approx(1).epsilon(1e-5));
  }
}

TEST_CASE("RowSample keeps evenly spaced rows that fit") {
  struct Row {
    std::vector<std::size_t> widths;
    std::size_t most;
    std::vector<std::size_t> kept;
  };
  const std::vector<Row> rows = {
      {{3, 3, 3}, 9, {0, 1, 2}},
      {{3, 3, 3, 3}, 11, {1, 3}},
      {{1, 2, 3, 4, 5, 6}, 11, {1, 4}},  // rows 1, 3 and 5 together have 12 elements
      {{5, 5, 5}, 5, {1}},
      {{9, 1, 9}, 8, {1}},
      {{5, 5, 5}, 4, {}},
      {{0, 0}, 4, {}},
      {{}, 4, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.widths.size());
    const RowSample sample(row.widths, row.most);
    std::vector<std::size_t> kept;
    std::size_t room = 0;
    for (std::size_t i = 0; i < row.widths.size(); ++i) {
      if (sample.offsets[i] == RowSample::kNone) continue;
      CHECK(sample.offsets[i] == room);
      room += row.widths[i];
      kept.push_back(i);
    }
    CHECK(kept == row.kept);
    CHECK(sample.rows == kept.size());
    CHECK(sample.size == room);
    CHECK(room <= row.most);
  }
}

TEST_CASE("pairs of selected heads equal those of a study of all heads") {
  const json all = study(kCorpus, {"--measures", "pairs"})["pairs"];
  const json some = study(kCorpus, {"--measures", "pairs", "--heads", "0.1,2.3,3.0"})["pairs"];
  const std::array<std::size_t, 3> heads = {1, 11, 12};
  REQUIRE(some.size() == 3);
  for (std::size_t m = 0; m < 3; ++m) {
    CAPTURE(some[m]["measure"]);
    CHECK(some[m]["rows"] == all[m]["rows"]);
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = 0; b < 3; ++b) {
        const double value = some[m]["value"][a][b];
        CHECK(value == doctest::Approx(all[m]["value"][heads[a]][heads[b]].get<double>()).epsilon(1e-5));
        CHECK(value == some[m]["value"][b][a].get<double>());
      }
      CHECK(some[m]["value"][a][a] == (m == 0 ? 0 : 1));
    }
  }
}

TEST_CASE("the table of pairs has the upper triangles of the matrices") {
  const json pairs = study(kCorpus, {"--measures", "pairs", "--heads", "0.1,0.3,2.3,3.0,3.2"})["pairs"];
  const RunResult csv = run_attnctl({"study", kLlama, "--input", kCorpus, "--measures", "pairs", "--heads",
                                     "0.1,0.3,2.3,3.0,3.2", "--format", "csv", "--table", "pairs"});
  REQUIRE(csv.status == 0);
  const std::array heads = {"0,1,0.1", "0,3,0.3", "2,3,2.3", "3,0,3.0", "3,2,3.2"};
  std::string wanted = "model,measure,component,layer_a,head_a,name_a,layer_b,head_b,name_b,value\r\n";
  for (const json& matrix : pairs) {
    CHECK(matrix["names"] == json({"0.1", "0.3", "2.3", "3.0", "3.2"}));
    for (std::size_t a = 0; a < heads.size(); ++a) {
      for (std::size_t b = a + 1; b < heads.size(); ++b) {
        wanted += kLlama + "," + matrix["measure"].get<std::string>() + ",," + heads[a] + "," + heads[b] +
                  "," + matrix["value"][a][b].dump() + "\r\n";
      }
    }
  }
  CHECK(csv.out == wanted);
}

TEST_CASE("long blocks are compared by evenly spaced rows with similar results") {
  const TempDir folder;
  std::string text;
  for (std::size_t i = 0; i < 40 * 250; ++i) {
    text += std::array{"the", "cat", "sat", "on", "a", "mat", "and"}[(i * i + i / 7) % 7];
    text += i % 250 == 249 ? '\n' : ' ';
  }
  const std::string input = folder.write("long.txt", text).string();
  const auto pairs = [&](const char* tokens) {
    return study(input, {"--measures", "pairs", "--batch-tokens", tokens})["pairs"];
  };
  const json whole = pairs("2048");
  const json sampled = pairs("12000");
  const auto rows = whole[0]["rows"].get<std::size_t>();
  CHECK(rows >= 10000);
  CHECK(sampled[0]["rows"].get<std::size_t>() <= rows / 2 + 1);
  CHECK(sampled[0]["rows"].get<std::size_t>() >= rows / 3);
  CHECK(sampled[2]["rows"] == 8192);  // 512 floats per row: 16 MiB
  for (std::size_t a = 0; a < 16; ++a) {
    for (std::size_t b = 0; b < 16; ++b) {
      const double want = whole[0]["value"][a][b];
      CHECK(std::abs(sampled[0]["value"][a][b].get<double>() - want) <= 0.02);
    }
  }
}

TEST_CASE("pairs is left out by default for too many heads and refused if it is named") {
  const auto rows = parse_measures("");
  Warnings warnings;
  CHECK(within_limit(rows, 1024, warnings) == rows);
  CHECK(warnings.list().empty());
  const auto fewer = within_limit(rows, 1025, warnings);
  CHECK(fewer.size() == rows.size() - 1);
  CHECK(std::ranges::none_of(fewer, [](const MeasureRow* row) { return row->name == "pairs"; }));
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "measure_left_out");
  CHECK(warnings.list()[0].message.find("--heads or --layers") != std::string::npos);
  StudyShape shape;
  shape.heads.resize(1025);
  try {
    (void)make_measures(parse_measures("pairs"), shape);
    FAIL("1025 heads were taken");
  } catch (const Error& error) {
    CHECK(error.status() == Status::limit);
    CHECK(std::string(error.what()).find("got 1025 heads, the limit is 1024") != std::string::npos);
  }
}

TEST_CASE("rollout of the last layer agrees with analyze and ends at a layer with missing heads") {
  const std::string text = "the cat sat on the mat because it was tired";
  const TempDir folder;
  const std::string input = folder.write("one.txt", text + "\n").string();
  const json all = study(input, {"--measures", "rollout"})["rollout"];
  const RunResult analyze =
      run_attnctl({"analyze", kLlama, "--text", text, "--include", "rollout", "--format", "json"});
  REQUIRE(analyze.status == 0);
  const json rolled = json::parse(analyze.out)["rollout"];  // one record per position
  double mean = 0;
  for (const json& row : rolled) mean += row["weight"][0].get<double>() / static_cast<double>(rolled.size());
  for (const json& row : all) {
    if (row["layer"] == 3) CHECK(row["mass"].get<double>() == doctest::Approx(mean).epsilon(1e-5));
  }
  CHECK(all.size() == 8);  // position 0 and <s> in each of four layers
  CHECK(study(input, {"--measures", "rollout", "--layers", "0-1"})["rollout"] ==
        json(std::vector<json>(all.begin(), all.begin() + 4)));
  for (const std::vector<std::string>& selected :
       {std::vector<std::string>{"--layers", "1-3"}, {"--heads", "0.0,0.1,0.2,1.0"}}) {
    const std::string warning =
        "attnctl: warning: rollout is empty: it starts at layer 0, so select all heads of layer 0\n";
    CHECK(study(input, {"--measures", "rollout", selected[0], selected[1]}, warning)["rollout"].empty());
  }
}

/// Whether a block knows the rows drawn so far, and the number of rows that all blocks kept.
struct Looks {
  bool ahead = false;
  std::size_t kept = 0;
};

/// Returns the sample of a study with these blocks, 50 rows per block.
DrawnRows drawn_from(const std::vector<std::uint64_t>& blocks, std::size_t capacity, Looks* looks = nullptr) {
  DrawnRows all;
  all.set_capacity(capacity);
  for (const std::uint64_t block : blocks) {
    DrawnRows own;
    own.set_capacity(capacity);
    const auto keys =
        draw_rows(7, block, 50, capacity, looks != nullptr && looks->ahead ? all.end() : std::nullopt);
    for (std::size_t row = 0; row < 50; ++row) {
      const auto& key = keys[row];
      if (!key) continue;
      own.add(*key, {static_cast<float>(block), static_cast<float>(row)});
      if (looks != nullptr) ++looks->kept;
    }
    all.merge(own);
  }
  return all;
}

std::string bytes_of(const DrawnRows& rows) {
  StateWriter out;
  rows.save(out);
  return out.bytes();
}

TEST_CASE("the sample of rows does not depend on the order of blocks") {
  const DrawnRows forwards = drawn_from({0, 1, 2, 3, 4, 5, 6, 7}, 40);
  DrawnRows shards = drawn_from({6, 1, 4}, 40);
  shards.merge(drawn_from({7, 3}, 40));
  shards.merge(drawn_from({5, 0, 2}, 40));
  CHECK(forwards.rows().size() == 40);
  CHECK(bytes_of(forwards) == bytes_of(shards));
  for (const auto& [key, row] : forwards.rows()) {
    CHECK(row == std::vector<float>{static_cast<float>(key.block), static_cast<float>(key.row)});
  }
  CHECK(drawn_from({0, 1}, 1000).rows().size() == 100);
  CHECK(drawn_from({0}, 0).rows().empty());
}

TEST_CASE("a block that knows the sample so far keeps fewer rows without changing the sample") {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t block = 0; block < 40; ++block) blocks.push_back(block);
  Looks blind;
  Looks knowing{.ahead = true};
  const DrawnRows all = drawn_from(blocks, 60, &blind);
  CHECK(bytes_of(drawn_from(blocks, 60, &knowing)) == bytes_of(all));
  CHECK(blind.kept == 2000);
  CHECK(knowing.kept < 500);
  CHECK(knowing.kept >= 60);
  CHECK_FALSE(drawn_from({0}, 51).end().has_value());
}

TEST_CASE("all rows are drawn equally often") {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t block = 0; block < 400; ++block) blocks.push_back(block);
  std::vector<std::size_t> of_place(50), of_part(4);
  const DrawnRows drawn = drawn_from(blocks, 4000);  // of 20000 rows: 80 per row index, 1000 per part
  for (const auto& [key, row] : drawn.rows()) {
    ++of_place[key.row];
    ++of_part[key.block / 100];
  }
  for (const std::size_t count : of_place) {
    CHECK(count > 40);  // within 5 standard deviations
    CHECK(count < 120);
  }
  for (const std::size_t count : of_part) {
    CHECK(count > 860);
    CHECK(count < 1140);
  }
}

TEST_CASE("drawn rows are restored from a state, and damaged states are refused") {
  const DrawnRows rows = drawn_from({0, 1, 2}, 20);
  const std::string bytes = bytes_of(rows);
  DrawnRows again;
  StateReader in(bytes, "a.state");
  again.load(in, 2);
  CHECK(in.at_end());
  CHECK(bytes_of(again) == bytes);
  for (const std::size_t size : {std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
    StateReader cut(std::string_view(bytes).substr(0, size), "a.state");
    CHECK_THROWS_AS(again.load(cut, 2), Error);
  }
  StateWriter unordered;
  unordered.number(2);
  unordered.number(2);
  for (const std::uint64_t drawn : {9U, 3U}) {
    for (const std::uint64_t part : {drawn, std::uint64_t{0}, std::uint64_t{0}}) unordered.number(part);
    unordered.floats(std::vector<float>{1});
  }
  StateReader reader(unordered.bytes(), "a.state");
  CHECK_THROWS_AS(again.load(reader, 1), Error);
}

}  // namespace
}  // namespace attnctl::test
