#include <map>

#include <doctest/doctest.h>

#include "model/model.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/refusal.hpp"

namespace {

using attnctl::Shape;
using attnctl::Status;
using attnctl::model::Model;
using attnctl::model::Orientation;
using attnctl::test::MemoryModel;

MemoryModel bare(const std::map<std::string, Shape>& tensors, const char* options) {
  MemoryModel model;
  model.config = nlohmann::ordered_json::parse(options);
  model.config["model_type"] = "attention";
  for (const auto& [name, shape] : tensors) model.tensors[name] = attnctl::test::ramp(shape);
  return model;
}

Model bound(const MemoryModel& model) {
  static attnctl::Warnings warnings;
  return Model::bind(model.source(), warnings);
}

struct Sizes {
  std::size_t d, kdim, vdim, d_out, d_head, d_value;
  bool operator==(const Sizes&) const = default;
};

}  // namespace

TEST_CASE("bare attention takes its sizes from shapes and its layout from names") {
  struct Row {
    const char* why;
    std::map<std::string, Shape> tensors;
    const char* options;
    Sizes want;
    Orientation orientation;
  };
  for (const Row& row : {
           Row{"two dimensions, every width its own",
               {{"W_q", {10, 12}}, {"W_k", {7, 12}}, {"W_v", {9, 20}}, {"W_o", {20, 6}}},
               R"({"heads": 4})",
               {10, 7, 9, 6, 3, 5},
               Orientation::in_out},
           Row{"three dimensions, two key/value heads",
               {{"W_q", {4, 10, 3}}, {"W_k", {2, 10, 3}}, {"W_v", {2, 10, 5}}, {"W_o", {4, 5, 10}}},
               R"({"heads": 4, "kv_heads": 2})",
               {10, 10, 10, 10, 3, 5},
               Orientation::in_out},
           Row{"modules, [out, in]",
               {{"q_proj.weight", {12, 10}},
                {"k_proj.weight", {3, 10}},
                {"v_proj.weight", {2, 10}},
                {"o_proj.weight", {10, 8}}},
               R"({"heads": 4, "kv_heads": 1})",
               {10, 10, 10, 10, 3, 2},
               Orientation::out_in},
           Row{"square modules: the name decides",
               {{"W_q.weight", {8, 8}},
                {"W_k.weight", {8, 8}},
                {"W_v.weight", {8, 8}},
                {"W_o.weight", {8, 8}}},
               R"({"heads": 2})",
               {8, 8, 8, 8, 4, 4},
               Orientation::out_in},
           Row{"torch.nn.MultiheadAttention",
               {{"in_proj_weight", {36, 12}},
                {"in_proj_bias", {36}},
                {"out_proj.weight", {12, 12}},
                {"out_proj.bias", {12}}},
               R"({"heads": 3})",
               {12, 12, 12, 12, 4, 4},
               Orientation::out_in},
           Row{"the same with kdim and vdim",
               {{"q_proj_weight", {12, 12}},
                {"k_proj_weight", {12, 5}},
                {"v_proj_weight", {12, 7}},
                {"out_proj.weight", {12, 12}}},
               R"({"heads": 3})",
               {12, 5, 7, 12, 4, 4},
               Orientation::out_in},
           Row{"no W_o: z side by side",
               {{"W_q", {8, 6}}, {"W_v", {8, 9}}},
               R"({"heads": 3})",
               {8, 8, 8, 9, 2, 3},
               Orientation::in_out},
           Row{"factors; W_o by head",
               {{"W_q_a", {10, 3}},
                {"W_q_b", {3, 8}},
                {"W_k_a", {7, 2}},
                {"W_k_b", {2, 2, 4}},
                {"W_v", {9, 6}},
                {"W_o_a", {2, 3, 5}},
                {"W_o_b", {5, 11}}},
               R"({"heads": 2})",
               {10, 7, 9, 11, 4, 3},
               Orientation::in_out},
           Row{"only W_q and W_k; the input width 9 need not be a multiple of 2",
               {{"W_q", {9, 8}}, {"W_k", {9, 8}}},
               R"({"heads": 2, "d_head": 4})",
               {9, 9, 9, 0, 4, 0},
               Orientation::in_out},
       }) {
    CAPTURE(std::string(row.why));
    const Model model = bound(bare(row.tensors, row.options));
    const attnctl::model::ModelConfig& config = model.config();
    const attnctl::model::AttentionConfig& attention = config.layers.at(0).attention;
    CHECK(Sizes{config.d_model, config.d_key_input, config.d_value_input, config.d_output, attention.d_head,
                attention.d_value} == row.want);
    const auto lease = model.layer(0);
    const attnctl::model::LayerWeights& layer = *lease;
    CHECK(layer.query.orientation == row.orientation);
    CHECK(layer.query.in() == config.d_model);
    CHECK(layer.query.out() == attention.heads * attention.d_head);
    CHECK(layer.key.out() == attention.kv_heads * attention.d_head);
    CHECK(layer.value.present() == (attention.d_value > 0));
    CHECK(model.unused_tensors() == 0);
    CHECK_FALSE(config.max_positions.has_value());
  }
}

TEST_CASE("a projection of rank 3 is read head by head") {
  const MemoryModel source =
      bare({{"W_q", {2, 3, 4}}, {"W_v", {2, 3, 2}}, {"W_o", {2, 2, 5}}, {"b_q", {2, 4}}}, R"({"heads": 2})");
  const Model model = bound(source);
  const auto value = [&](std::size_t place) { return 0.01F * static_cast<float>(place * place % 97 + 1); };
  const auto query = model.layer(0)->query.in_out_double();    // [3, 8]
  const auto output = model.layer(0)->output.in_out_double();  // [4, 5]
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t c = 0; c < 4; ++c) CHECK(query(i, h * 4 + c) == value((h * 3 + i) * 4 + c));
    }
    for (std::size_t c = 0; c < 2; ++c) {
      for (std::size_t j = 0; j < 5; ++j) CHECK(output(h * 2 + c, j) == value((h * 2 + c) * 5 + j));
    }
  }
  CHECK(model.layer(0)->query.bias[5] == value(5));
  CHECK(model.layer(0)->key.stored.data == model.layer(0)->query.stored.data);  // W_q is used for keys
  CHECK(model.layer(0)->key.bias.empty());
}

TEST_CASE("layers of bare attention have numbered names") {
  std::map<std::string, Shape> tensors;
  for (const std::string layer : {"layers.0.", "layers.1."}) {
    tensors[layer + "W_q"] = tensors[layer + "W_k"] = {6, 4};
    tensors[layer + "W_v"] = {6, 2};
    tensors[layer + "W_o"] = {2, 6};
  }
  tensors["layers.1.b_o"] = {6};
  tensors["embedding"] = {3, 6};
  const Model model = bound(
      bare(tensors, R"({"heads": 2, "layers": 2, "vocab": ["a", "b", "c"], "position": "sinusoidal"})"));
  CHECK(model.config().layers.size() == 2);
  CHECK(model.layer(0)->output.bias.empty());
  CHECK(model.layer(1)->output.bias.size() == 6);
  CHECK(model.config().embedding.vocabulary == 3);
  CHECK(model.config().embedding.position == attnctl::model::PositionKind::sinusoidal);
  CHECK(model.config().vocabulary == std::vector<std::string>{"a", "b", "c"});
  CHECK(model.embedding()->token.rows() == 3);
}

TEST_CASE("faults in bare attention are reported with the tensor or key") {
  struct Row {
    std::map<std::string, Shape> tensors;
    const char* options;
    std::vector<std::string_view> parts;
  };
  for (const Row& row : std::vector<Row>{
           {{{"W_k", {8, 8}}},
            R"({"heads": 2})",
            {"no query projection", "W_q, W_q.weight, w_q.weight, q_proj.weight"}},
           {{{"W_q", {8, 9}}}, R"({"heads": 2})", {"\"W_q\": got shape [8, 9]", "multiple of 2 (/heads"}},
           {{{"W_q", {8}}}, R"({"heads": 2})", {"got shape [8], need two or three dimensions"}},
           {{{"q_proj.weight", {2, 8, 4}}}, R"({"heads": 2})", {"got shape [2, 8, 4], need two dimensions"}},
           {{{"W_q", {3, 8, 4}}},
            R"({"heads": 2})",
            {"got shape [3, 8, 4], need a first extent of 2, the number of stored heads"}},
           {{{"W_q", {0, 8}}}, R"({"heads": 2})", {"no extent of 0"}},
           {{{"W_q", {8, 8}}, {"W_k", {8, 6}}},
            R"({"heads": 2})",
            {"\"W_k\": got shape [8, 6], need [8, 8]"}},
           {{{"W_q", {8, 8}}, {"W_v", {8, 7}}}, R"({"heads": 2})", {"\"W_v\"", "7 to be a multiple of 2"}},
           {{{"W_q", {8, 8}}, {"W_v", {8, 6}}, {"W_o", {8, 8}}},
            R"({"heads": 2})",
            {"\"W_o\": got shape [8, 8], need [6, 8]"}},
           {{{"W_q", {8, 8}}, {"b_q", {4}}}, R"({"heads": 2})", {"\"b_q\": got shape [4], need [8]"}},
           {{{"W_q", {8, 8}}, {"b_q", {4, 2}}},
            R"({"heads": 2})",
            {"\"b_q\": got shape [4, 2], need [2, 4]"}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "d_head": 3})",
            {"/d_head: got 3, need 4, which follows from tensor \"W_q\""}},
           {{{"W_q", {8, 8}}, {"W_v", {8, 6}}}, R"({"heads": 2, "d_value": 4})", {"/d_value: got 4, need 3"}},
           {{{"W_q", {8, 8}}, {"W_o", {6, 8}}},
            R"({"heads": 2, "d_value": 4})",
            {"/d_value: got 4, need 3, which follows from tensor \"W_o\""}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "kv_heads": 1})",
            {"/kv_heads: got 1, need 2", "is used for keys"}},
           {{{"W_q", {8, 8}}, {"q_proj.weight", {8, 8}}},
            R"({"heads": 2})",
            {"\"W_q\" and \"q_proj.weight\" are alternatives"}},
           {{{"in_proj_weight", {24, 8}}, {"bias_k", {1, 1, 8}}},
            R"({"heads": 2})",
            {"\"bias_k\": learned key or value vectors are unsupported"}},
           {{{"in_proj_weight", {25, 8}}}, R"({"heads": 2})", {"\"in_proj_weight\": got shape [25, 8]"}},
           {{{"layers.0.W_q", {8, 8}}}, R"({"heads": 2, "layers": 2})", {"layers.1.W_q"}},
           {{{"layers.0.W_q", {8, 8}}, {"layers.0.W_v", {8, 6}}},
            R"({"heads": 2, "layers": 2})",
            {"/layers", "width 6 and input width 8"}},
           {{{"W_q", {8, 8}}, {"embedding", {3, 7}}},
            R"({"heads": 2})",
            {"\"embedding\": got shape [3, 7], need [3, 8]"}},
           {{{"W_q", {8, 8}}}, R"({"heads": 2, "scale": "big"})", {"/scale: got \"big\", need a number"}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "add_zero_attn": true})",
            {"/add_zero_attn: unsupported true"}},
           {{{"in_proj_weight", {24, 8}}, {"bias_k", {1, 1, 8}}, {"bias_v", {1, 1, 8}}},
            R"({"heads": 2})",
            {"\"bias_k\": learned key or value vectors are unsupported", "bias_k, bias_v"}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "head_slices": 1})",
            {"/head_slices: got 1, need a list of 2"}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "head_slices": [0, 0, 1]})",
            {"/head_slices: got", "need a list of 2 numbers (/heads)"}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "head_slices": [0, -1]})",
            {"/head_slices/1: got -1, need the number of a slice"}},
           {{{"W_q", {8, 8}}}, R"({"heads": 2, "head_slices": [0, "a"]})", {"/head_slices/1: got \"a\""}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "d_head": 4, "head_slices": [0, 2]})",
            {"/head_slices/1: got 2, need a number below 2, the number of stored slices"}},
           {{{"W_q", {3, 8, 4}}},
            R"({"heads": 2, "head_slices": [3, 0]})",
            {"/head_slices/0: got 3, need a number below 3"}},
           {{{"W_q", {8, 8}}},
            R"({"heads": 2, "head_slices": [0, 2]})",
            {"\"W_q\": got shape [8, 8], need 8 to be a multiple of 3 (/head_slices"}},
           {{{"W_q", {3, 8, 4}}},
            R"({"heads": 2, "kv_heads": 2, "head_slices": [0, 1]})",
            {"/kv_heads: got 2, need 3", "slices of tied heads"}},
           {{{"W_q", {8, 8}}, {"W_k", {8, 12}}},
            R"({"heads": 3, "head_slices": [0, 1, 1]})",
            {"\"W_k\": got shape [8, 12], need [8, 8]"}},
           {{{"W_q_a", {8, 2}}}, R"({"heads": 2})", {"\"W_q_a\" is one factor", "need \"W_q_b\" too"}},
           {{{"W_q", {8, 8}}, {"W_k_b", {2, 8}}},
            R"({"heads": 2})",
            {"\"W_k_b\" is one factor", "\"W_k_a\""}},
           {{{"W_q", {8, 8}}, {"W_q_a", {8, 2}}, {"W_q_b", {2, 8}}},
            R"({"heads": 2})",
            {"\"W_q\" and \"W_q_a\" are alternatives"}},
           {{{"W_q_a", {8, 3}}, {"W_q_b", {2, 8}}},
            R"({"heads": 2})",
            {"\"W_q_b\": got shape [2, 8], need 3 inputs, the rank of tensor \"W_q_a\" of shape [8, 3]"}},
           {{{"W_q_a", {8, 0}}, {"W_q_b", {0, 8}}}, R"({"heads": 2})", {"no extent of 0"}},
           {{{"W_q_a", {2, 8, 2}}, {"W_q_b", {2, 8}}},
            R"({"heads": 2})",
            {"\"W_q_a\": got shape [2, 8, 2], need two dimensions"}},
           {{{"W_q", {8, 8}}, {"W_v", {8, 6}}, {"W_o_a", {8, 2}}, {"W_o_b", {2, 8}}},
            R"({"heads": 2})",
            {"\"W_o_a\": got shape [8, 2], need [6, 2]"}},
           {{{"layers.0.W_q_a", {8, 2}},
             {"layers.0.W_q_b", {2, 8}},
             {"layers.1.W_q_a", {8, 2}},
             {"layers.1.W_q_b", {3, 8}}},
            R"({"heads": 2, "layers": 2})",
            {"\"layers.1.W_q_b\": got shape [3, 8], need [2, 8]"}},
           {{{"W_q", {8, 8}}}, R"({"heads": 2, "vocab": [1]})", {"/vocab: got [1], need a list of strings"}},
       }) {
    CAPTURE(std::string(row.options));
    CAPTURE(std::string(row.parts.front()));
    attnctl::test::check_refusal([&] { static_cast<void>(bound(bare(row.tensors, row.options))); },
                                 Status::bad_input, row.parts);
  }
  MemoryModel integer = bare({{"W_q", {8, 8}}}, R"({"heads": 2})");
  integer.tensors["W_q"] = attnctl::test::zeros(attnctl::DType::i64, {8, 8});
  attnctl::test::check_refusal([&] { static_cast<void>(bound(integer)); }, Status::bad_input,
                               {"tensor \"W_q\": got dtype I64"});
}
