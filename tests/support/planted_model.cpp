#include "support/planted_model.hpp"

#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "base/numbers.hpp"

namespace attnctl::test {
namespace {

constexpr std::size_t kHeads = 5, kWidth = 36, kStream = kHeads * kWidth, kLayers = 2;
constexpr std::size_t kTokens = PlantedModel::kOrdinary + 2;
constexpr std::size_t kWaves = 12;  // number of frequencies, each with a cosine and a sine
constexpr double kSharp = 40;       // score of the key that a head attends to
constexpr double kRarer = 4;        // score of a token minus that of the token before it in the vocabulary
constexpr double kEarlier = 1;      // score penalty per position if the earlier of equal keys should win
constexpr double kRamp = 1.0 / 64;  // factor of a position in the residual stream

using Vector = std::vector<double>;
using Basis = std::vector<Vector>;  // orthonormal vectors of mean 0: layer norms keep their directions

Basis draw_basis(Random& random, std::size_t count) {
  Basis basis = {Vector(kStream, 1 / std::sqrt(static_cast<double>(kStream)))};
  while (basis.size() <= count) {
    Vector vector(kStream);
    for (double& value : vector) value = random.normal();
    for (int pass = 0; pass < 2; ++pass) {
      for (const Vector& other : basis) {
        double along = 0;
        for (std::size_t i = 0; i < kStream; ++i) along += vector[i] * other[i];
        for (std::size_t i = 0; i < kStream; ++i) vector[i] -= along * other[i];
      }
    }
    double norm = 0;
    for (const double value : vector) norm += value * value;
    for (double& value : vector) value /= std::sqrt(norm);
    basis.push_back(std::move(vector));
  }
  basis.erase(basis.begin());
  return basis;
}

/// The directions of the features in the residual stream. `scale` is the length of one feature after the norm
/// of each layer.
struct Features {
  Basis token, wave, before;
  Vector ramp;
  Vector frequencies;
  double scale[kLayers] = {std::sqrt(kStream / 2.0), std::sqrt(kStream / 3.0)};

  explicit Features(Random& random) {
    Basis all = draw_basis(random, 2 * kTokens + 2 * kWaves + 1);
    const auto take = [&all](std::size_t count) {
      Basis taken(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
      all.resize(all.size() - count);
      return taken;
    };
    token = take(kTokens);
    before = take(kTokens);
    wave = take(2 * kWaves);
    ramp = take(1)[0];
    for (std::size_t i = 0; i < kWaves; ++i) {
      const double place = static_cast<double>(i) + random.uniform();
      frequencies.push_back(std::numbers::pi * place / kWaves);
    }
  }

  /// Returns the coordinates of a position in `wave`, cosines and sines: a vector of length 1.
  [[nodiscard]] Vector waves(double position) const {
    Vector values;
    for (const double frequency : frequencies) {
      values.push_back(std::cos(frequency * position) / std::sqrt(static_cast<double>(kWaves)));
      values.push_back(std::sin(frequency * position) / std::sqrt(static_cast<double>(kWaves)));
    }
    return values;
  }
};

struct Matrix {
  std::size_t rows = 0;
  std::vector<float> values = std::vector<float>(rows * kStream);

  void add(std::size_t row, const Vector& direction, double factor) {
    for (std::size_t i = 0; i < kStream; ++i)
      values[row * kStream + i] += static_cast<float>(factor * direction[i]);
  }
  [[nodiscard]] MemoryTensor tensor() const { return floats({rows, kStream}, values); }
};

/// The query, key, value and output weights of one layer. A row of the first three is a dimension of a head.
struct Attention {
  Matrix query{kStream}, key{kStream}, value{kStream};
  Matrix output{kStream};  // transposed: row r is the direction to which dimension r of z is written
  std::vector<float> query_bias = std::vector<float>(kStream);
  const Features& features;
  double scale;

  Attention(const Features& all, std::size_t layer) : features(all), scale(all.scale[layer]) {}

  /// Returns the factor for the product of one dimension of q and one of k, both of feature length, that
  /// gives `score`.
  [[nodiscard]] double factor(double score) const {
    return score * std::sqrt(static_cast<double>(kWidth)) / (scale * scale);
  }
  /// Gives q and k the same dimensions: the coordinates of `keys` in k and of `queries` in q.
  void match(std::size_t head, const Basis& queries, const Basis& keys) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      query.add(head * kWidth + i, queries[i], factor(kSharp));
      key.add(head * kWidth + i, keys[i], 1);
    }
  }
  void look_at_offset(std::size_t head, double offset) {
    for (std::size_t i = 0; i < kWaves; ++i) {
      const double turn = features.frequencies[i] * offset;
      const std::size_t row = head * kWidth + 2 * i;
      query.add(row, features.wave[2 * i], factor(kSharp) * std::cos(turn));
      query.add(row, features.wave[2 * i + 1], -factor(kSharp) * std::sin(turn));
      query.add(row + 1, features.wave[2 * i], factor(kSharp) * std::sin(turn));
      query.add(row + 1, features.wave[2 * i + 1], factor(kSharp) * std::cos(turn));
      key.add(row, features.wave[2 * i], 1);
      key.add(row + 1, features.wave[2 * i + 1], 1);
    }
  }
  /// Adds `weight` times the coordinate of a key in `direction` to the scores of all queries, in dimension
  /// `row`.
  void want(std::size_t head, std::size_t row, const Vector& direction, double weight) {
    key.add(head * kWidth + row, direction, 1);
    query_bias[head * kWidth + row] = static_cast<float>(factor(weight) * scale);
  }
  void prefer_earlier(std::size_t head) { want(head, kTokens, features.ramp, -kEarlier / kRamp); }
  void look_at_first(std::size_t head) {
    const Vector waves = features.waves(0);
    for (std::size_t i = 0; i < waves.size(); ++i) want(head, i, features.wave[i], kSharp * waves[i]);
  }
  /// Gives tokens a higher score the later they are in the vocabulary.
  void look_at_rare_tokens(std::size_t head) {
    for (std::size_t i = 0; i < PlantedModel::kOrdinary; ++i)
      key.add(head * kWidth, features.token[i], static_cast<double>(i));
    query_bias[head * kWidth] = static_cast<float>(factor(kRarer) * scale);
  }
  /// Copies the token that the head attends to into z, and from z to the feature `before`.
  void write_token_before(std::size_t head) {
    for (std::size_t i = 0; i < kTokens; ++i) {
      value.add(head * kWidth + i, features.token[i], 1);
      output.add(head * kWidth + i, features.before[i], 1);
    }
  }
};

void put(MemoryModel& model, std::size_t layer, const Attention& attention) {
  const std::string prefix = "encoder.layer." + std::to_string(layer) + ".attention.";
  model.tensors[prefix + "self.query.weight"] = attention.query.tensor();
  model.tensors[prefix + "self.query.bias"] = floats({kStream}, attention.query_bias);
  model.tensors[prefix + "self.key.weight"] = attention.key.tensor();
  model.tensors[prefix + "self.value.weight"] = attention.value.tensor();
  Matrix output{kStream};
  for (std::size_t r = 0; r < kStream; ++r) {
    for (std::size_t c = 0; c < kStream; ++c)
      output.values[c * kStream + r] = attention.output.values[r * kStream + c];
  }
  model.tensors[prefix + "output.dense.weight"] = output.tensor();
}

/// Returns a model with all tensors, set to zero, and norms without gain or bias.
MemoryModel empty_model() {
  MemoryModel model;
  model.config = nlohmann::ordered_json{{"model_type", "bert"},
                                        {"architectures", {"BertModel"}},
                                        {"vocab_size", kTokens},
                                        {"hidden_size", kStream},
                                        {"num_hidden_layers", kLayers},
                                        {"num_attention_heads", kHeads},
                                        {"intermediate_size", 4},
                                        {"hidden_act", "gelu"},
                                        {"max_position_embeddings", PlantedModel::kPositions},
                                        {"type_vocab_size", 2},
                                        {"layer_norm_eps", 1e-12}};
  const auto norm = [&model](const std::string& name) {
    model.tensors[name + ".weight"] = floats({kStream}, std::vector<float>(kStream, 1));
    model.tensors[name + ".bias"] = zeros(DType::f32, {kStream});
  };
  const auto linear = [&model](const std::string& name, std::size_t out, std::size_t in) {
    model.tensors[name + ".weight"] = zeros(DType::f32, {out, in});
    model.tensors[name + ".bias"] = zeros(DType::f32, {out});
  };
  model.tensors["embeddings.word_embeddings.weight"] = zeros(DType::f32, {kTokens, kStream});
  model.tensors["embeddings.position_embeddings.weight"] =
      zeros(DType::f32, {PlantedModel::kPositions, kStream});
  model.tensors["embeddings.token_type_embeddings.weight"] = zeros(DType::f32, {2, kStream});
  norm("embeddings.LayerNorm");
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
    for (const char* const name : {"self.query", "self.key", "self.value", "output.dense"})
      linear(prefix + "attention." + name, kStream, kStream);
    linear(prefix + "intermediate.dense", 4, kStream);
    linear(prefix + "output.dense", kStream, 4);
    norm(prefix + "attention.output.LayerNorm");
    norm(prefix + "output.LayerNorm");
  }
  return model;
}

void put_embeddings(MemoryModel& model, const Features& features) {
  Matrix tokens{kTokens};
  for (std::size_t i = 0; i < kTokens; ++i) tokens.add(i, features.token[i], 1);
  Matrix positions{PlantedModel::kPositions};
  for (std::size_t p = 0; p < PlantedModel::kPositions; ++p) {
    const auto place = static_cast<double>(p);
    const Vector waves = features.waves(place);
    for (std::size_t i = 0; i < waves.size(); ++i) positions.add(p, features.wave[i], waves[i]);
    positions.add(p, features.ramp, kRamp * place);
  }
  model.tensors["embeddings.word_embeddings.weight"] = tokens.tensor();
  model.tensors["embeddings.position_embeddings.weight"] = positions.tensor();
}

}  // namespace

PlantedModel PlantedModel::make(std::uint64_t seed) {
  Random random(seed);
  const Features features(random);
  PlantedModel planted{empty_model(),
                       {{"0.0", "positional -1"},
                        {"0.1", "positional +1"},
                        {"0.2", "sink position 0"},
                        {"0.3", "duplicate-token"},
                        {"0.4", "rare-token"},
                        {"1.0", "induction"},
                        {"1.1", "positional +3"},
                        {"1.2", "broad"},
                        {"1.3", "separator [SEP]"},
                        {"1.4", "broad"}}};
  put_embeddings(planted.model, features);
  Attention first(features, 0);
  first.look_at_offset(0, -1);
  first.write_token_before(0);
  first.look_at_offset(1, 1);
  first.look_at_first(2);
  first.match(3, features.token, features.token);
  first.prefer_earlier(3);
  first.look_at_rare_tokens(4);
  put(planted.model, 0, first);
  Attention second(features, 1);
  second.match(0, features.token, features.before);
  second.prefer_earlier(0);
  second.look_at_offset(1, 3);
  second.want(3, 0, features.token[kEnd], kSharp);
  put(planted.model, 1, second);
  return planted;
}

MemoryModel PlantedModel::random(std::uint64_t seed) {
  Random random(seed, 1);
  MemoryModel model = empty_model();
  for (auto& [name, tensor] : model.tensors) {
    if (tensor.shape.size() != 2) continue;
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    for (float& value : values) value = static_cast<float>(0.02 * random.normal());
    tensor = floats(tensor.shape, values);
  }
  return model;
}

tokenizer::Vocabulary PlantedModel::vocabulary() {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < kOrdinary; ++i) tokens.push_back("t" + std::to_string(i));
  tokens.insert(tokens.end(), {"[CLS]", "[SEP]"});
  return {std::move(tokens), std::set<std::int64_t>{kBegin, kEnd}};
}

study::TokenFrequencies PlantedModel::frequencies() {
  study::TokenFrequencies frequencies;
  for (std::size_t id = 0; id < kOrdinary; ++id)
    frequencies.set(static_cast<std::int64_t>(id), 2 * kOrdinary - id);
  return frequencies;
}

std::string PlantedModel::corpus(std::uint64_t seed, std::size_t sentences) {
  Random random(seed, 2);
  std::string text;
  for (std::size_t line = 0; line < sentences; ++line) {
    std::uint64_t kinds[5];
    for (std::uint64_t& kind : kinds) kind = random.next() % kOrdinary;
    text += "{\"ids\": [" + std::to_string(kBegin);
    for (std::uint64_t left = 16 + random.next() % 9; left > 0; --left)
      text += ", " + std::to_string(kinds[random.next() % 5]);
    text += ", " + std::to_string(kEnd) + "]}\n";
  }
  return text;
}

}  // namespace attnctl::test
