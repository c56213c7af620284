#include "study/state/sums.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "study/measure.hpp"
#include "study/measures/relations.hpp"
#include "study/state/block_set.hpp"
#include "study/state/state_io.hpp"
#include "study/state/study_state.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {

using namespace study;
using nlohmann::json;

namespace {

struct Case {
  const char* name;
  Bins bins;
  double centre, spread;
};
const std::vector<Case> kCases = {
    {"shares", {.spacing = Bins::Spacing::linear, .highest = 1, .count = 128}, 0.5, 0.2},
    {"nats", {.spacing = Bins::Spacing::linear, .highest = 12.8, .count = 256}, 3, 1},
    {"signed tokens", {.spacing = Bins::Spacing::octaves, .highest = 0, .count = 0}, -3, 40},
};

std::vector<double> draws(const Case& of, std::size_t count) {
  Random random(11);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(of.centre + of.spread * random.normal());
  return values;
}

std::size_t bin_of(const Bins& bins, double value) {
  std::vector<std::uint64_t> counts(bins.size());
  bins.fill(std::span(&value, 1), counts);
  return static_cast<std::size_t>(std::ranges::find(counts, 1U) - counts.begin());
}

std::string saved(const QuantityMoments& moments) {
  StateWriter out;
  moments.save(out);
  return out.bytes();
}

TEST_CASE("moments agree with naive sums") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    const std::vector<double> values = draws(each, 1000);
    QuantityMoments moments(each.bins);
    long double sum = 0;
    for (const double value : values) {
      moments.add(value);
      sum += value;
    }
    const long double mean = sum / 1000;
    long double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    const MomentsSummary summary = moments.summary();
    CHECK(summary.count == 1000);
    CHECK(std::abs(*summary.mean - static_cast<double>(mean)) < 1e-12 * each.spread);
    CHECK(std::abs(*summary.variance - static_cast<double>(squares / 1000)) <
          1e-10 * each.spread * each.spread);
    CHECK(*summary.minimum == *std::ranges::min_element(values));
    CHECK(*summary.maximum == *std::ranges::max_element(values));
  }
}

TEST_CASE("bins count the values between their edges") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    const std::vector<double> values = draws(each, 1000);
    QuantityMoments moments(each.bins);
    std::vector<std::uint64_t> naive(each.bins.size());
    for (const double value : values) {
      moments.add(value);
      for (std::size_t bin = 0; bin < naive.size(); ++bin) {
        // Octaves: a negative bin includes its upper edge; the other bins include their lower edge.
        const bool negative = each.bins.edge(bin) < 0 && each.bins.spacing == Bins::Spacing::octaves;
        const bool zero = negative && each.bins.edge(bin + 1) > 0;
        const bool above = negative && !zero ? value > each.bins.edge(bin) : value >= each.bins.edge(bin);
        const bool below =
            negative && !zero ? value <= each.bins.edge(bin + 1) : value < each.bins.edge(bin + 1);
        const bool outside = (bin == 0 && value < each.bins.edge(0)) ||
                             (bin + 1 == naive.size() && value >= each.bins.edge(bin + 1));
        if ((above && below && !(zero && value == each.bins.edge(bin))) || outside) ++naive[bin];
      }
    }
    CHECK(moments.histogram() == naive);
  }
}

TEST_CASE("quantiles agree with sorted values to one bin") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    std::vector<double> values = draws(each, 1000);
    QuantityMoments moments(each.bins);
    for (const double value : values) moments.add(value);
    std::ranges::sort(values);
    for (const double q : {0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0}) {
      CAPTURE(q);
      const double want = values[std::min<std::size_t>(999, static_cast<std::size_t>(q * 1000))];
      const std::size_t bin = bin_of(each.bins, want);
      const std::size_t found = bin_of(each.bins, *moments.quantile(q));
      CHECK(std::max(bin, found) - std::min(bin, found) <= 1);
    }
  }
  CHECK_FALSE(QuantityMoments(kCases[0].bins).quantile(0.5).has_value());
}

TEST_CASE("moments merge in any order, also through files, to the same bytes") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    const std::vector<double> values = draws(each, 700);
    std::vector<QuantityMoments> blocks(7, QuantityMoments(each.bins));
    for (std::size_t i = 0; i < values.size(); ++i) blocks[i / 100].add(values[i]);
    const auto joined = [&](const std::vector<std::size_t>& order) {
      QuantityMoments all(each.bins);
      for (const std::size_t block : order) {
        QuantityMoments read(each.bins);
        const std::string bytes = saved(blocks[block]);
        StateReader in(bytes, "block");
        read.load(in);
        CHECK(in.at_end());
        all.merge(block % 2 == 0 ? read : blocks[block]);
      }
      return saved(all);
    };
    const std::string once = joined({0, 1, 2, 3, 4, 5, 6});
    CHECK(joined({6, 3, 0, 5, 1, 4, 2}) == once);
    CHECK(joined({2, 1, 0, 6, 5, 4, 3}) == once);
  }
}

TEST_CASE("truncated and damaged states are refused") {
  QuantityMoments moments(kCases[0].bins);
  for (const double value : draws(kCases[0], 50)) moments.add(value);
  const std::string bytes = saved(moments);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    QuantityMoments read(kCases[0].bins);
    StateReader in(std::string_view(bytes).substr(0, size), "cut");
    CHECK_THROWS_AS(read.load(in), Error);
  }
  QuantityMoments other(kCases[1].bins);
  StateReader in(bytes, "other");
  CHECK_THROWS_WITH_AS(other.load(in), doctest::Contains("histogram bins: got"), Error);
}

TEST_CASE("a set of blocks agrees with a set of numbers") {
  Random random(5);
  const auto draw = [&](std::uint64_t below) { return random.next() % below; };
  BlockSet set;
  std::set<std::uint64_t> naive;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t first = draw(300);
    const std::uint64_t last = first + 1 + draw(4);
    std::optional<std::uint64_t> common;
    for (std::uint64_t block = last; block-- > first;) {
      if (naive.contains(block)) common = block;
    }
    for (std::uint64_t block = first; !common && block < last; ++block) naive.insert(block);
    CHECK(set.insert(first, last) == common);
  }
  CHECK(set.size() == naive.size());
  std::vector<std::uint64_t> missing;
  std::size_t runs = 0;
  for (std::uint64_t block = 0; block < 310; ++block) {
    CHECK(set.contains(block) == naive.contains(block));
    if (!naive.contains(block)) missing.push_back(block);
    if (naive.contains(block) && !naive.contains(block + 1)) ++runs;
  }
  CHECK(set.runs().size() == runs);
  CHECK(set.missing(310, 1000) == missing);
  CHECK(set.missing(310, 3).size() == 3);
  CHECK(set.step() == *std::next(naive.begin()) - *naive.begin());
}

TEST_CASE("a set of blocks repeats if each shard has all of its blocks or none") {
  BlockSet set;
  for (const std::uint64_t block : {1U, 2U, 5U, 6U, 9U}) set.insert(block, block + 1);
  CHECK(set.repeats(4, 10));
  CHECK_FALSE(set.repeats(4, 11));
  CHECK_FALSE(set.repeats(3, 10));
}

/// Returns a state file with the block `block` and `null_models` random models.
std::string state_file(std::uint64_t block, std::size_t null_models,
                       Value model = Record().set("path", "model")) {
  StudyHeader header;
  header.model = std::move(model);
  header.shape.heads.emplace_back().name = "0.0";
  header.measures = parse_measures("roles");
  header.null_models = null_models;
  StudyState state(std::move(header));
  CorpusBlock corpus;
  corpus.number = block;
  state.add(corpus, state.make_block_measures(), {}, "kernel");
  const TempDir folder;
  OutputFile out(folder.path() / "a.state");
  state.write(out);
  out.commit();
  return slurp(folder.path() / "a.state");
}

/// Replaces a byte of a state by a number, and corrects the checksum. The byte is `after` bytes after the
/// first one that differs from `other`.
std::string forged(const std::string& state, const std::string& other, std::size_t after,
                   std::uint64_t number) {
  constexpr std::string_view kMagic = "attnctl study\n";
  StateReader in(std::string_view(state).substr(kMagic.size()), "state");
  StateReader reference(std::string_view(other).substr(kMagic.size()), "other");
  StateWriter out;
  out.number(in.number());
  (void)reference.number();
  std::string content = in.text();
  const auto differs = std::ranges::mismatch(content, reference.text()).in1 - content.begin();
  StateWriter value;
  value.number(number);
  content.replace(static_cast<std::size_t>(differs) + after, 1, value.bytes());
  out.text(content);
  out.number(content_hash(content));
  return std::string(kMagic) + out.bytes();
}

TEST_CASE("a state may promise many blocks, but not more random models than it holds") {
  const TempDir folder;
  const auto read = [&](const std::string& bytes) {
    return StudyState::read(folder.write("forged.state", bytes));
  };
  const std::string state = state_file(0, 1);
  const std::string next_block = state_file(1, 1);  // differs in the gap before the run, before its length
  const StudyState many = read(forged(state, next_block, 1, 99'999'999));
  CHECK(many.done().size() == 99'999'999);
  CHECK(many.done().runs().size() == 1);
  CHECK(many.done().missing(100'000'000, 5) == std::vector<std::uint64_t>{99'999'999});
  check_refusal([&] { (void)read(forged(state, next_block, 1, 100'000'001)); }, Status::bad_input,
                {"there are too many blocks"});
  check_refusal([&] { (void)read(forged(state, next_block, 1, 0)); }, Status::bad_input,
                {"a run of blocks is empty"});
  check_refusal([&] { (void)read(forged(state, state_file(0, 2), 0, 100)); }, Status::bad_input,
                {"forged.state: the study state is damaged: the file ends too early"});
  for (const Value& model :
       {Value("model"), Value(Record()), Value(Record().set("path", "a").set("heads", List()))})
    check_refusal([&] { (void)read(state_file(0, 1, model)); }, Status::bad_input,
                  {"the record of the model"});
}

TEST_CASE("states whose sums are too large to be added are refused") {
  const auto make = [](std::uint64_t block) {
    StudyHeader header;
    header.shape.heads.emplace_back().name = "0.0";
    header.measures = parse_measures("positional");
    StudyState state(std::move(header));
    const StudyMeasures measures = state.make_block_measures();
    StateWriter out;
    measures.own[0]->save(out);
    std::string bytes = out.bytes();
    bytes[18] = 0x40;  // the first sum, which follows three counts, becomes 2^62
    StateReader in(bytes, "measure");
    measures.own[0]->load(in);
    CorpusBlock corpus;
    corpus.number = block;
    state.add(corpus, measures, {}, "kernel");
    return state;
  };
  StudyState state = make(0);
  check_refusal([&] { state.merge(make(1), "a", "b"); }, Status::bad_input,
                {"b: ", "its sums are too large"});
}

TEST_CASE("errors escape the names and values in a state") {
  StudyHeader header, wanted;
  header.identity = {{"seed\x1b", "1"}, {"weights", "a\nb"}};
  wanted.identity = {{"seed\x1b", "2"}, {"weights", "a\nb"}};
  check_refusal([&] { require_same_study(header, "a", wanted, "b"); }, Status::bad_input,
                {R"(--seed\x1b: got "1", need "2")"});
  wanted.identity = {{"seed\x1b", "1"}, {"weights", "c"}};
  check_refusal([&] { require_same_study(header, "a", wanted, "b"); }, Status::bad_input,
                {R"((weights a\x0ab))"});
}

TEST_CASE("values are restored from a state") {
  Record inner;
  inner.set("a", std::int64_t{-3}).set("b", 0.5).set("c", Value()).set("d", true);
  Record record;
  record.set("list", List{Value("text"), Value(1.5F), Value(std::move(inner))}).set("empty", List{});
  StateWriter out;
  out.value(record);
  out.signed_number(std::numeric_limits<std::int64_t>::min());
  out.number(std::numeric_limits<std::uint64_t>::max());
  StateReader in(out.bytes(), "values");
  StateWriter again;
  again.value(in.value());
  CHECK(in.signed_number() == std::numeric_limits<std::int64_t>::min());
  CHECK(in.number() == std::numeric_limits<std::uint64_t>::max());
  CHECK(in.at_end());
  CHECK(out.bytes().starts_with(again.bytes()));
}

/// Values from the xxHash specification and its sanity checks.
TEST_CASE("the content hash is XXH64") {
  CHECK(hash_text(content_hash(std::string_view())) == "ef46db3751d8e999");
  CHECK(hash_text(content_hash(std::string_view("a"))) == "d24ec4f1a98c6e5b");
  CHECK(hash_text(content_hash(std::string_view("abc"))) == "44bc2cf5ad770999");
  CHECK(hash_text(content_hash(std::string_view("Nobody inspects the spammish repetition"))) ==
        "fbcea83c8a378bf1");
}

/// Reference: wilson() of tests/golden/make_intervals.py over four sentences.
TEST_CASE("RatioSums::interval agrees with SciPy") {
  RatioSums sums;
  CHECK_FALSE(sums.mean().has_value());
  const std::vector<SentenceTerm> terms = {{3, 1, 5}, {4, 2, 9}, {0, 0, 0}, {2.5, 0.5, 7}, {3, 1, 6}};
  RatioSums half, rest;
  for (std::size_t i = 0; i < terms.size(); ++i) (i % 2 == 0 ? half : rest).add(terms[i]);
  merge_state(rest, half);
  CHECK(rest.sentences() == 4);
  CHECK(rest.rows() == 27);
  CHECK(*rest.mean() == doctest::Approx(12.5 / 27));
  CHECK(*rest.null() == doctest::Approx(4.5 / 27));
  CHECK(rest.estimate()->interval().low == doctest::Approx(0.2124434).epsilon(1e-5));
  CHECK(rest.estimate()->interval().high == doctest::Approx(0.7336889).epsilon(1e-5));
  StateWriter out;
  save_state(out, rest);
  StateReader in(out.bytes(), "state");
  RatioSums read;
  load_state(in, read);
  CHECK(in.at_end());
  CHECK(read.estimate()->interval().low == rest.estimate()->interval().low);
  CHECK_FALSE(sums.estimate().has_value());
  // Rows are added to their sentence, and merging ends the last sentence.
  RatioSums rows, merged;
  for (const auto& [sequence, weight] : std::vector<std::pair<std::size_t, double>>{{1, 0.5}, {1, 1}, {3, 0}})
    rows.open(sequence).add(weight, 0.25);
  merge_state(merged, rows);
  merge_state(merged, rows);
  CHECK(merged.sentences() == 4);
  CHECK(merged.rows() == 6);
  CHECK(*merged.mean() == 0.5);
  CHECK(*merged.null() == 0.25);
  sums.add({5, 1, 5});
  CHECK_FALSE(sums.estimate().has_value());  // only one sentence
  sums.add({1, 1, 5});
  CHECK(sums.estimate()->interval().low == doctest::Approx(0.0033189).epsilon(1e-4));
  CHECK(sums.estimate()->interval().high == doctest::Approx(0.9985222).epsilon(1e-4));
}

TEST_CASE("intervals of shares and differences agree with SciPy") {
  const json golden = json::parse(slurp(ATTNCTL_SOURCE_DIR "/tests/golden/study/intervals.json"));
  for (const json& row : golden["quantiles"]) {
    CAPTURE(row.dump());
    CHECK(student_quantile(row["tail"], row["degrees"]) ==
          doctest::Approx(row["value"].get<double>()).epsilon(2e-5));
  }
  const auto check_ends = [](const ConfidenceInterval& found, const json& wanted) {
    CHECK(std::abs(found.low - wanted["low"].get<double>()) < 2e-5);
    CHECK(std::abs(found.high - wanted["high"].get<double>()) < 2e-5);
  };
  for (const json& row : golden["binomial"]) {  // many clusters of one observation
    CAPTURE(row.dump());
    const double n = row["count"], share = row["hits"].get<double>() / n;
    const ShareEstimate found{share, std::sqrt(share * (1 - share) / n), row["count"], 1'000'000'000};
    check_ends(found.interval(row["tests"]), row);
  }
  for (const json& row : golden["clusters"]) {
    CAPTURE(row.dump());
    RatioSums sums;
    GroupScores scores(2);
    for (std::size_t i = 0; i < row["a"].size(); ++i) {
      const std::uint64_t a = row["a"][i], b = row["b"][i], less = row["less"][i];
      sums.add({static_cast<double>(a), 0, b});
      scores.group(i) = {b, a, less};
    }
    check_ends(sums.estimate()->interval(row["tests"]), row);
    check_ends(scores.estimate(0)->interval(row["tests"]), row);
    const auto excess = scores.estimate(0, kAllBlocks, ScoredBaseline{.answer = 1});
    check_ends(excess->difference_interval(row["tests"]), row["difference"]);
  }
}

/// Reference: Newcombe 1998, table I, method 3.
TEST_CASE("intervals of shares agree with published ones, and equal observations have a width") {
  struct Row {
    double hits, count, low, high;
  };
  for (const Row& row : std::vector<Row>{{81, 263, 0.2553, 0.3662},
                                         {15, 148, 0.0624, 0.1605},
                                         {0, 20, 0, 0.1611},
                                         {1, 29, 0.0061, 0.1718}}) {
    CAPTURE(row.hits);
    const double share = row.hits / row.count;
    const ShareEstimate found{share, 0, static_cast<std::uint64_t>(row.count), 1'000'000'000};
    CHECK(std::abs(found.interval().low - row.low) < 5e-5);
    CHECK(std::abs(found.interval().high - row.high) < 5e-5);
  }
  const ShareEstimate equal{1, 0, 5, 5};
  CHECK(equal.interval().low < 0.6);
  CHECK(equal.interval(42).low < equal.interval().low);
  CHECK(equal.interval().high == 1);
  CHECK(ShareEstimate{0, 0, 5, 5}.difference_interval().high > 0.2);
  CHECK(ShareEstimate{1 + 1e-9, 0, 5, 5}.interval().high == 1);  // rounding of float32 weights
}

TEST_CASE("the version of the measure `metrics` belongs to its row metrics") {
  const MeasureRow row = metrics_measure();
  std::string names;
  for (const Definition& each : row.definitions) {
    if (!each.source.empty()) names += std::string(each.name) + " ";
  }
  INFO("if the row metrics changed, increase the version of metrics_measure() and update this test");
  CHECK(names ==
        "entropy entropy_bits confidence distance signed_distance self previous_token next_token first_token "
        "special_token ");
  CHECK(row.version == 1);
}

}  // namespace
}  // namespace attnctl::test
