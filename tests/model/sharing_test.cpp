
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "model/accounting/accounting.hpp"
#include "support/memory_checkpoint.hpp"

namespace {

using attnctl::Shape;
using attnctl::test::MemoryModel;

MemoryModel bare(const std::map<std::string, Shape>& tensors, const char* options) {
  MemoryModel model;
  model.config = nlohmann::ordered_json::parse(options);
  model.config["model_type"] = "attention";
  // All values differ: with a plain ramp, a W_k of the same shape would be a copy of W_q.
  float sign = 1;
  for (const auto& [name, shape] : tensors) {
    attnctl::test::MemoryTensor tensor = attnctl::test::ramp(shape);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    attnctl::convert(tensor.dtype, tensor.bytes, std::span<float>(values));
    for (float& value : values) value *= sign;
    sign += 1;
    model.tensors[name] = attnctl::test::floats(shape, values);
  }
  return model;
}

/// "KIND LAYERS HEADS: TEXT" of each row.
std::vector<std::string> statements(const attnctl::Model& model) {
  const attnctl::Table table = attnctl::sharing_table(model.config(), &model);
  CHECK(column_names(table) == std::vector<std::string>{"kind", "layers", "heads", "text"});
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < table.rows; ++i) {
    std::vector<attnctl::Cell> cells(table.columns.size());
    table.row(i, cells);
    const auto text = [&](std::size_t column) {
      const auto* found = std::get_if<std::string>(&cells[column]);
      return found != nullptr ? *found : std::string("-");
    };
    texts.push_back(text(0) + " " + text(1) + " " + text(2) + ": " + text(3));
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("equal statements about several layers form one row") {
  const std::map<std::string, Shape> plain = {
      {"W_q", {6, 6}}, {"W_k", {6, 6}}, {"W_v", {6, 6}}, {"W_o", {6, 6}}};
  CHECK(statements(bare(plain, R"({"heads": 3})").bound()).empty());

  std::map<std::string, Shape> tensors;
  for (const std::string layer : {"layers.0.", "layers.1.", "layers.2."}) {
    tensors[layer + "W_q"] = {12, 12};
    tensors[layer + "W_k"] = tensors[layer + "W_v"] = {12, 6};
    tensors[layer + "W_o"] = {12, 12};
  }
  CHECK(statements(bare(tensors, R"({"heads": 4, "kv_heads": 2, "layers": 3})").bound()) ==
        Texts{"kv_head 0-2 0,1: heads 0,1 share W_K and W_V (key/value head 0)",
              "kv_head 0-2 2,3: heads 2,3 share W_K and W_V (key/value head 1)"});

  CHECK(statements(bare({{"W_q", {6, 8}}}, R"({"heads": 2})").bound()) ==
        Texts{"query_key 0 -: W_Q = W_K: there is no W_K, W_Q is used"});
  CHECK(statements(bare({{"W_q", {6, 6}}, {"W_k", {6, 6}}, {"W_v", {6, 6}}},
                        R"({"heads": 5, "head_slices": [0, 1, 0, 0, 2]})")
                       .bound()) ==
        Texts{"tied_heads 0 0,2,3: heads 0,2,3 are tied to slice 0 of W_Q, W_K and W_V"});

  std::map<std::string, Shape> thin = {{"layers.0.W_q_a", {6, 2}}, {"layers.0.W_q_b", {2, 8}},
                                       {"layers.0.W_k", {6, 8}},   {"layers.0.W_v", {6, 4}},
                                       {"layers.0.W_o_a", {4, 3}}, {"layers.0.W_o_b", {3, 6}}};
  for (const auto& [name, shape] : std::map(thin)) thin["layers.1" + name.substr(8)] = shape;
  CHECK(statements(bare(thin, R"({"heads": 2, "layers": 2})").bound()) ==
        Texts{"factorised 0,1 -: W_Q factorised, rank 2", "factorised 0,1 -: W_O factorised, rank 3"});
}

TEST_CASE("W_K is W_Q if their bytes are equal, in any layout") {
  struct Row {
    std::map<std::string, Shape> tensors;
    const char* options;
    std::vector<std::pair<const char*, const char*>> copies;  // of the second to the first
    bool same;
  };
  for (const Row& row : std::vector<Row>{
           {{{"W_q", {6, 8}}, {"W_k", {6, 8}}}, R"({"heads": 2})", {{"W_k", "W_q"}}, true},
           {{{"W_q", {6, 8}}, {"W_k", {6, 8}}}, R"({"heads": 2})", {}, false},
           {{{"q_proj.weight", {8, 6}}, {"k_proj.weight", {8, 6}}},
            R"({"heads": 2})",
            {{"k_proj.weight", "q_proj.weight"}},
            true},
           {{{"W_q_a", {6, 2}}, {"W_q_b", {2, 8}}, {"W_k_a", {6, 2}}, {"W_k_b", {2, 8}}},
            R"({"heads": 2})",
            {{"W_k_a", "W_q_a"}, {"W_k_b", "W_q_b"}},
            true},
           {{{"W_q_a", {6, 2}}, {"W_q_b", {2, 8}}, {"W_k_a", {6, 2}}, {"W_k_b", {2, 8}}},
            R"({"heads": 2})",
            {{"W_k_a", "W_q_a"}},
            false},
       }) {
    MemoryModel model = bare(row.tensors, row.options);
    for (const auto& [to, from] : row.copies) model.tensors[to] = model.tensors.at(from);
    CHECK(model.bound().key_is_query(0) == row.same);
  }
  // [q; k; v] in one tensor: the first two blocks of rows alike, and then one value not.
  std::vector<float> packed(std::size_t{18} * 6);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<float>(i < 36 ? i : i - 36);
  MemoryModel torch = bare({}, R"({"heads": 2})");
  torch.tensors["in_proj_weight"] = attnctl::test::floats({18, 6}, packed);
  CHECK(torch.bound().key_is_query(0));
  packed[71] += 1;
  torch.tensors["in_proj_weight"] = attnctl::test::floats({18, 6}, packed);
  CHECK_FALSE(torch.bound().key_is_query(0));

  // Two tensors are two, and none is none.
  MemoryModel twice = bare({{"W_q", {6, 8}}, {"W_k", {6, 8}}}, R"({"heads": 2})");
  CHECK(twice.bound().parameters() == 2 * 6 * 8);
  twice.tensors.erase("W_k");
  CHECK(twice.bound().parameters() == 6 * 8);
  CHECK(attnctl::count_parameters(twice.bound().config()).all == 6 * 8);
}

TEST_CASE("parameters, operations and cache of attention variants follow their formulas") {
  const std::uint64_t d = 24, h = 6, k = 5, v = 4, n = 10;
  struct Row {
    const char* why;
    std::map<std::string, Shape> tensors;
    const char* options;
    std::uint64_t parameters, projections, output, cache;
  };
  for (const Row& row : std::vector<Row>{
           {"full",
            {{"W_q", {d, h * k}}, {"W_k", {d, h * k}}, {"W_v", {d, h * v}}, {"W_o", {h * v, d}}},
            R"({"heads": 6})",
            2 * d * h * k + 2 * d * h * v,
            2 * n * d * h * (2 * k + v),
            2 * n * h * v * d,
            4 * h * (k + v)},
           {"multi-query",
            {{"W_q", {d, h * k}}, {"W_k", {d, k}}, {"W_v", {d, v}}, {"W_o", {h * v, d}}},
            R"({"heads": 6, "kv_heads": 1})",
            d * h * k + d * k + d * v + h * v * d,
            2 * n * d * (h * k + k + v),
            2 * n * h * v * d,
            4 * (k + v)},
           {"no W_k, no W_o",
            {{"W_q", {d, h * k}}, {"W_v", {d, h * v}}},
            R"({"heads": 6})",
            d * h * k + d * h * v,
            2 * n * d * h * (2 * k + v),
            0,
            4 * h * (k + v)},
           {"tied to two slices",
            {{"W_q", {d, 2 * k}}, {"W_k", {d, 2 * k}}, {"W_v", {d, 2 * v}}, {"W_o", {h * v, d}}},
            R"({"heads": 6, "head_slices": [0, 0, 0, 1, 1, 1]})",
            2 * d * 2 * k + d * 2 * v + h * v * d,
            2 * n * d * 2 * (2 * k + v),
            2 * n * h * v * d,
            4 * 2 * (k + v)},
           {"all factorised, of the ranks 2, 3, 4 and 7",
            {{"W_q_a", {d, 2}},
             {"W_q_b", {2, h * k}},
             {"W_k_a", {d, 3}},
             {"W_k_b", {3, h * k}},
             {"W_v_a", {d, 4}},
             {"W_v_b", {4, h * v}},
             {"W_o_a", {h * v, 7}},
             {"W_o_b", {7, d}}},
            R"({"heads": 6})",
            2 * (d + h * k) + 3 * (d + h * k) + 4 * (d + h * v) + 7 * (h * v + d),
            2 * n * (2 * (d + h * k) + 3 * (d + h * k) + 4 * (d + h * v)),
            2 * n * 7 * (h * v + d),
            4 * h * (k + v)},
       }) {
    CAPTURE(std::string(row.why));
    const attnctl::Model model = bare(row.tensors, row.options).bound();
    const attnctl::FlopCount flops = attnctl::count_flops(model.config(), n);
    CHECK(attnctl::count_parameters(model.config()).all == row.parameters);
    CHECK(model.parameters() == row.parameters);
    CHECK(flops.projections == row.projections);
    CHECK(flops.output == row.output);
    CHECK(flops.scores == 2 * n * n * h * k);
    CHECK(flops.values == 2 * n * n * h * v);
    CHECK(attnctl::count_cache_bytes(model.config()) == row.cache);
  }
}
