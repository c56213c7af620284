#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "forward/block.hpp"
#include "forward/run.hpp"
#include "support/golden.hpp"

using attnctl::forward::Needs;
using attnctl::forward::Selection;
using attnctl::input::Batch;
using attnctl::model::ModelConfig;
namespace forward = attnctl::forward;
using attnctl::OwnedMatrix;
using attnctl::input::Sequence;
using attnctl::model::Model;

namespace {

ModelConfig three_layers() {
  ModelConfig config;
  config.d_model = config.d_output = 8;
  config.layers.resize(3);
  for (auto& layer : config.layers) {
    layer.attention.heads = layer.attention.kv_heads = 2;
    layer.attention.value.weight = true;
  }
  config.head.present = true;
  return config;
}

attnctl::input::Sequence of_length(std::size_t n) {
  attnctl::input::Sequence sequence;
  sequence.ids.assign(n, 0);
  return sequence;
}

Needs needing(bool Needs::*what) {
  Needs needs;
  needs.*what = true;
  return needs;
}

}  // namespace

TEST_CASE("the last needed layer stops after its patterns") {
  const forward::PassPlan plan = forward::make_plan("m", three_layers(), {{{0, 1}, {1, 0}}}, Needs{});
  CHECK(plan.layers.size() == 2);
  CHECK_FALSE(plan.logits);
  CHECK(plan.layers[0].onward);
  CHECK(plan.layers[0].computed == std::vector<std::uint8_t>{1, 1});
  CHECK(plan.layers[0].shown == std::vector<std::uint8_t>{0, 1});
  CHECK(plan.layers[1].shown == std::vector<std::uint8_t>{1, 0});
  CHECK(plan.layers[1].computed == std::vector<std::uint8_t>{1, 0});  // the other head is skipped
  CHECK_FALSE(plan.layers[1].values);
  CHECK_FALSE(plan.layers[1].z);
  CHECK_FALSE(plan.layers[1].output);
  CHECK_FALSE(plan.layers[1].onward);
}

TEST_CASE("each need adds its own results only") {
  struct Row {
    bool Needs::*what;
    bool values, z, output, scores;
  };
  for (const Row& row : {
           Row{&Needs::values, true, false, false, false},
           Row{&Needs::z, true, true, false, false},
           Row{&Needs::output, true, true, true, false},
           Row{&Needs::scores, false, false, false, true},
       }) {
    const forward::PassPlan plan = forward::make_plan("m", three_layers(), {{{2, 0}}}, needing(row.what));
    const forward::LayerPlan& last = plan.layers.at(2);
    CHECK(last.values == row.values);
    CHECK(last.z == row.z);
    CHECK(last.output == row.output);
    CHECK(last.shows_output == row.output);
    CHECK((last.computed[1] != 0) == row.output);  // the output needs all heads
    CHECK(last.scores == row.scores);
    CHECK_FALSE(plan.layers[0].scores);  // none of its heads is selected
    CHECK_FALSE(plan.layers[0].shows_output);
  }
}

TEST_CASE("Needs::end runs the last layer to its end if it has an output") {
  ModelConfig config = three_layers();
  const Needs needs = needing(&Needs::end);
  forward::PassPlan plan = forward::make_plan("m", config, {{{0, 1}, {1, 0}}}, needs);
  CHECK(plan.layers.size() == 2);  // a layer after the last selected one is not computed
  CHECK(plan.layers[1].onward);
  CHECK(plan.layers[1].output);
  CHECK_FALSE(plan.layers[1].shows_output);
  config.layers[2].attention.value.weight = false;
  plan = forward::make_plan("m", config, {{{2, 0}}}, needs);
  CHECK_FALSE(plan.layers[2].onward);
  CHECK_FALSE(plan.layers[2].output);
}

TEST_CASE("logits need all layers if there is an output head") {
  ModelConfig config = three_layers();
  const Needs logits = needing(&Needs::logits);
  CHECK(forward::make_plan("m", config, {{{0, 0}}}, logits).layers.size() == 3);
  CHECK(forward::make_plan("m", config, {}, logits).layers.back().onward);
  config.head.present = false;
  CHECK(forward::make_plan("m", config, {{{0, 0}}}, logits).layers.size() == 1);
  CHECK(forward::make_plan("m", config, {}, Needs{}).layers.empty());
}

TEST_CASE("no layer can follow a layer without output") {
  ModelConfig config = three_layers();
  config.layers[0].attention.value.weight = false;
  CHECK_FALSE(forward::make_plan("m", config, {{{0, 0}}}, needing(&Needs::output)).layers[0].z);
  CHECK_THROWS_WITH_AS(
      (void)forward::make_plan("m", config, {{{1, 0}}}, Needs{}),
      "m: layer 0 has no values (W_v), so later layers, logits and its routing cannot be computed; "
      "select no later layers, and leave logits and routing out of --include",
      attnctl::Error);
  config = three_layers();
  config.d_output = 7;
  CHECK(forward::make_plan("m", config, {{{0, 0}}}, needing(&Needs::output)).layers[0].shows_output);
  CHECK_THROWS_AS((void)forward::make_plan("m", config, {{{1, 0}}}, Needs{}), attnctl::Error);
}

TEST_CASE("a selection lists its layers") {
  const Selection all = Selection::all(three_layers());
  CHECK(all.heads.size() == 6);
  CHECK(all.heads[3] == attnctl::model::HeadId{1, 1});
  CHECK(all.layers() == std::vector<std::size_t>{0, 1, 2});
  CHECK(Selection{{{0, 1}, {2, 0}, {2, 1}}}.layers() == std::vector<std::size_t>{0, 2});
}

TEST_CASE("short sequences share a block, long sequences and separate keys do not") {
  Batch batch;
  for (const std::size_t n : {3U, 4U, 5U, 20U, 1U, 2U, 2U}) batch.sequences.push_back(of_length(n));
  batch.sequences.back().key_embeddings = attnctl::OwnedMatrix<float>(6, 1);
  batch.sequences.push_back(of_length(1));
  const auto blocks = forward::cut_into_blocks(batch, 8);
  std::vector<std::vector<std::size_t>> got;
  for (const auto& block : blocks) {
    got.emplace_back();
    std::size_t rows = 0;
    for (const auto& sequence : block.sequences) {
      got.back().push_back(sequence.index);
      CHECK(sequence.first_query == rows);
      rows += sequence.queries;
    }
    CHECK(block.rows == rows);
  }
  CHECK(got == std::vector<std::vector<std::size_t>>{{0, 1}, {2}, {3}, {4, 5}, {6}, {7}});
  CHECK(blocks[4].rows == 2);
  CHECK(blocks[4].key_rows == 6);
  CHECK(blocks[1].key_rows == 5);
}

TEST_CASE("short inputs with long targets do not share a block") {
  Batch batch;
  for (const std::size_t n : {2U, 3U, 6U, 1U}) {
    batch.sequences.push_back(of_length(1));
    batch.sequences.back().target = std::make_shared<Sequence>(of_length(n));
  }
  const auto blocks = forward::cut_into_blocks(batch, 8);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].rows == 2);
  CHECK(blocks[1].rows == 2);
}

TEST_CASE("inputs that the model cannot take are rejected") {
  struct Row {
    std::string_view model;
    std::string_view what;
    void (*spoil)(Sequence&);
    std::string_view message;  // expected part of the message
  };
  for (const Row& row : {
           Row{"bert", "nothing", [](Sequence& s) { s.ids.clear(); }, "input 7 is empty"},
           Row{"bert", "negative id", [](Sequence& s) { s.ids[1] = -1; },
               "token id -1 at position 1 is out of range; the model has token ids 0 to 36"},
           Row{"bert", "id = vocabulary", [](Sequence& s) { s.ids[2] = 37; },
               "token id 37 at position 2 is out of range; the model has token ids 0 to 36"},
           Row{"bert", "huge id", [](Sequence& s) { s.ids[0] = std::int64_t{1} << 62; },
               "id 4611686018427387904"},
           Row{"bert", "too long", [](Sequence& s) { s.ids.assign(12, 1); },
               "has 12 tokens; the model takes at most 11"},
           Row{"bert", "token type",
               [](Sequence& s) {
                 s.token_type_ids = {0, 2, 0};
               },
               "token type 2 at position 1 is out of range; the model has token types 0 to 1"},
           Row{"bert", "token types",
               [](Sequence& s) {
                 s.token_type_ids = {0, 1};
               },
               "2 token types for 3 tokens"},
           Row{"llama", "no token types",
               [](Sequence& s) {
                 s.token_type_ids = {0, 1, 0};
               },
               "token type 1"},
           Row{"bert", "key mask",
               [](Sequence& s) {
                 s.key_visible = {1, 1};
               },
               "a key mask of 2 entries for 3 keys"},
           Row{"bert", "mask shape",
               [](Sequence& s) {
                 s.mask = attnctl::input::ScoreMask{1, 3, 4, std::vector<float>(12)};
               },
               "a mask of shape [3, 4] for 3 queries and 3 keys"},
           Row{"bert", "mask heads",
               [](Sequence& s) {
                 s.mask = attnctl::input::ScoreMask{2, 3, 3, std::vector<float>(18)};
               },
               "a mask for 2 heads; layer 0 has 3"},
           Row{"bert", "embeddings",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 23);
               },
               "embeddings of width 23; the model needs 24"},
           Row{"albert", "embeddings",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 15);
               },
               "embeddings of width 15; the model needs 10"},
           Row{"attention", "ids", [](Sequence&) {}, "no token embedding"},
           Row{"attention-torch-separate", "no keys",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 10);
               },
               "attnctl analyze reads those for keys from --keys"},
           Row{"attention-torch-separate", "no values",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 10);
                 s.key_embeddings = OwnedMatrix<float>(4, 7);
               },
               "attnctl analyze reads those for values from --values"},
           Row{"attention-torch-separate", "keys",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 10);
                 s.key_embeddings = OwnedMatrix<float>(4, 8);
               },
               "keys of width 8; the model needs 7"},
           Row{"attention-torch-separate", "values",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 10);
                 s.key_embeddings = OwnedMatrix<float>(4, 7);
                 s.value_embeddings = OwnedMatrix<float>(5, 9);
               },
               "5 values for 4 keys"},
       }) {
    CAPTURE(row.model);
    CAPTURE(row.what);
    attnctl::Warnings warnings;
    const Model model = attnctl::test::bind_model(
        std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden" / row.model, warnings);
    Sequence sequence;
    sequence.id = "7";
    sequence.ids = {1, 2, 3};
    row.spoil(sequence);
    try {
      Batch batch;
      batch.sequences.push_back(sequence);
      attnctl::forward::check_batch(model, batch);
      FAIL("must be refused");
    } catch (const attnctl::Error& error) {
      CHECK(error.status() == attnctl::Status::bad_input);
      CHECK(std::string(error.what()).find(row.message) != std::string::npos);
      CHECK(std::string(error.what()).find("input 7") == 0);
    }
  }
}
