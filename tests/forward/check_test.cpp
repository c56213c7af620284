#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "forward/run.hpp"
#include "support/golden.hpp"

using attnctl::Batch;
using attnctl::Model;
using attnctl::OwnedMatrix;
using attnctl::Sequence;

TEST_CASE("inputs that the model cannot take are refused") {
  struct Row {
    std::string_view model;
    std::string_view what;
    void (*spoil)(Sequence&);
    std::string_view message;  // expected part of the message
  };
  for (const Row& row : {
           Row{"bert", "nothing", [](Sequence& s) { s.ids.clear(); }, "input 7 is empty"},
           Row{"bert", "negative id", [](Sequence& s) { s.ids[1] = -1; },
               "id -1 at position 1 is out of range; the model has 0 to 36"},
           Row{"bert", "id = vocabulary", [](Sequence& s) { s.ids[2] = 37; },
               "id 37 at position 2 is out of range; the model has 0 to 36"},
           Row{"bert", "huge id", [](Sequence& s) { s.ids[0] = std::int64_t{1} << 62; },
               "id 4611686018427387904"},
           Row{"bert", "too long", [](Sequence& s) { s.ids.assign(12, 1); },
               "has 12 tokens; the model takes at most 11"},
           Row{"bert", "token type",
               [](Sequence& s) {
                 s.token_type_ids = {0, 2, 0};
               },
               "token type 2 at position 1 is out of range; the model has 0 to 1"},
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
                 s.mask = attnctl::ScoreMask{1, 3, 4, std::vector<float>(12)};
               },
               "a mask of shape [3, 4] for 3 queries and 3 keys"},
           Row{"bert", "mask heads",
               [](Sequence& s) {
                 s.mask = attnctl::ScoreMask{2, 3, 3, std::vector<float>(18)};
               },
               "a mask for 2 heads; the model has 3"},
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
               "--keys"},
           Row{"attention-torch-separate", "no values",
               [](Sequence& s) {
                 s.ids.clear();
                 s.embeddings = OwnedMatrix<float>(3, 10);
                 s.key_embeddings = OwnedMatrix<float>(4, 7);
               },
               "--values"},
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
      check_batch(model, batch);
      FAIL("must be refused");
    } catch (const attnctl::Error& error) {
      CHECK(error.status() == attnctl::Status::bad_input);
      CHECK(std::string(error.what()).find(row.message) != std::string::npos);
      CHECK(std::string(error.what()).find("input 7") == 0);
    }
  }
}
