#include "model/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace attnctl {
namespace {

// Each product and quotient below is rounded to float32 where the reference rounds it: one ulp in the inverse
// frequencies moves patterns of long sequences visibly.

struct Request {
  const ConfigReader& scaling;  // rope_parameters or rope_scaling, perhaps empty
  const ConfigReader& config;
  double theta;
  std::size_t dims;
  std::size_t max_positions;
  std::size_t original_otherwise;
};

const std::vector<std::string> type_names = {"rope_type", "type"};

/// theta^(2j/r)
std::vector<float> powers(const Request& request) {
  std::vector<float> out(request.dims / 2);
  for (std::size_t j = 0; j < out.size(); ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(request.dims);
    out[j] = std::pow(static_cast<float>(request.theta), exponent);
  }
  return out;
}

std::vector<float> default_frequencies(const Request& request) {
  std::vector<float> inverse = powers(request);
  for (float& value : inverse) value = 1.0F / value;
  return inverse;
}

double need(const Request& request, const std::string& name) {
  const auto value = request.scaling.positive(std::vector<std::string>{name});
  if (!value) request.scaling.missing(name, "a number above 0");
  return *value;
}

double optional(const Request& request, const std::string& name, double otherwise) {
  return request.scaling.positive(std::vector<std::string>{name}).value_or(otherwise);
}

std::size_t original_positions(const Request& request) {
  const std::vector<std::string> name = {"original_max_position_embeddings"};
  if (const auto outside = request.config.size(std::span(name))) return *outside;
  const std::size_t otherwise =
      request.original_otherwise > 0 ? request.original_otherwise : request.max_positions;
  return request.scaling.size(std::span(name)).value_or(otherwise);
}

RotaryConfig plain(const Request& request) {
  RotaryConfig rotary;
  rotary.inverse_frequency = default_frequencies(request);
  return rotary;
}

RotaryConfig linear(const Request& request) {
  RotaryConfig rotary = plain(request);
  const auto factor = static_cast<float>(need(request, "factor"));
  for (float& inverse : rotary.inverse_frequency) inverse = inverse / factor;
  return rotary;
}

RotaryConfig llama3(const Request& request) {
  RotaryConfig rotary = plain(request);
  const double low_frequency = need(request, "low_freq_factor");
  const double high_frequency = need(request, "high_freq_factor");
  if (high_frequency <= low_frequency) {
    request.scaling.refuse(*request.scaling.find("high_freq_factor"), "a number above low_freq_factor");
  }
  const auto factor = static_cast<float>(need(request, "factor"));
  const auto original = static_cast<double>(original_positions(request));
  const auto longest = static_cast<float>(original / low_frequency);
  const auto shortest = static_cast<float>(original / high_frequency);
  for (float& inverse : rotary.inverse_frequency) {
    const float length = static_cast<float>(2 * std::numbers::pi) / inverse;
    if (length > longest) {
      inverse = inverse / factor;
    } else if (length >= shortest) {
      const float smooth = (static_cast<float>(original) / length - static_cast<float>(low_frequency)) /
                           static_cast<float>(high_frequency - low_frequency);
      inverse = (1.0F - smooth) * inverse / factor + smooth * inverse;
    }
  }
  return rotary;
}

/// The dimension that turns this often within the original length.
double correction_dimension(const Request& request, double rotations, std::size_t original) {
  return static_cast<double>(request.dims) *
         std::log(static_cast<double>(original) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(request.theta));
}

double magnitude(double scale, double factor = 1) {
  return scale <= 1 ? 1.0 : 0.1 * factor * std::log(scale) + 1.0;
}

double yarn_attention_factor(const Request& request, double factor) {
  const auto all = request.scaling.number(std::vector<std::string>{"mscale_all_dim"}).value_or(0);
  const auto some = request.scaling.number(std::vector<std::string>{"mscale"}).value_or(0);
  const double inferred =
      some != 0 && all != 0 ? magnitude(factor, some) / magnitude(factor, all) : magnitude(factor);
  return optional(request, "attention_factor", inferred);
}

RotaryConfig yarn(const Request& request) {
  const std::size_t original = original_positions(request);
  const double ratio = static_cast<double>(request.max_positions) / static_cast<double>(original);
  const double factor = optional(request, "factor", ratio);
  double low = correction_dimension(request, optional(request, "beta_fast", 32), original);
  double high = correction_dimension(request, optional(request, "beta_slow", 1), original);
  if (request.scaling.flag("truncate").value_or(true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(request.dims) - 1);
  if (low == high) high += 0.001;

  RotaryConfig rotary;
  rotary.inverse_frequency = powers(request);
  for (std::size_t j = 0; j < rotary.inverse_frequency.size(); ++j) {
    const float power = rotary.inverse_frequency[j];
    const float ramp = (static_cast<float>(j) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
    const float interpolated = 1.0F / (static_cast<float>(factor) * power);
    const float extrapolated = 1.0F / power;
    rotary.inverse_frequency[j] = interpolated * (1.0F - kept) + extrapolated * kept;
  }
  rotary.attention_factor = static_cast<float>(yarn_attention_factor(request, factor));
  return rotary;
}

std::vector<float> divided(const Request& request, const std::string& name) {
  const auto factors = request.scaling.positives(name);
  if (!factors) request.scaling.missing(name, fmt::format("a list of {} numbers", request.dims / 2));
  if (factors->size() != request.dims / 2) {
    request.scaling.refuse(*request.scaling.find(name),
                           fmt::format("a list of {} numbers", request.dims / 2));
  }
  std::vector<float> inverse = powers(request);
  for (std::size_t j = 0; j < inverse.size(); ++j) {
    inverse[j] = 1.0F / (static_cast<float>((*factors)[j]) * inverse[j]);
  }
  return inverse;
}

RotaryConfig longrope(const Request& request) {
  RotaryConfig rotary;
  rotary.inverse_frequency = divided(request, "short_factor");
  rotary.long_inverse_frequency = divided(request, "long_factor");
  rotary.long_from = original_positions(request);
  const auto original = static_cast<double>(rotary.long_from);
  const double factor = optional(request, "factor", static_cast<double>(request.max_positions) / original);
  const double inferred = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  rotary.attention_factor = static_cast<float>(optional(request, "attention_factor", inferred));
  return rotary;
}

struct Scaling {
  std::string_view name;
  RotaryConfig (*resolve)(const Request&);
};
constexpr Scaling scalings[] = {{"default", plain}, {"linear", linear},     {"llama3", llama3},
                                {"yarn", yarn},     {"longrope", longrope}, {"su", longrope}};

RotaryConfig resolve_scaling(const Request& request, const RotarySpec& spec) {
  const std::string type = request.scaling.text(type_names).value_or("default");
  if (spec.yarn_is_longrope && type == "yarn") return longrope(request);
  for (const Scaling& scaling : scalings) {
    if (scaling.name == type) return scaling.resolve(request);
  }
  request.scaling.refuse_unsupported(*request.scaling.find(type_names),
                                     "default, linear, llama3, yarn, longrope");
}

/// An object of the configuration that says anything.
std::optional<ConfigReader> said(const ConfigReader& config, const std::string& name) {
  const auto value = config.find(name);
  if (!value || (value->json->is_object() && value->json->empty())) return std::nullopt;
  return config.object(name);
}

void refuse_nested(const ConfigReader& config, const std::string& name) {
  for (const auto& [key, parameter] : config.find(name)->json->items()) {
    if (parameter.is_object())
      config.object(name)->refuse_unsupported({key, &parameter}, "one set for all layers");
  }
}

/// The object that says how positions turn; an empty one where the configuration has none. transformers lets
/// a rope_scaling that says anything replace the whole of rope_parameters, its rope_theta included.
/// `layer_type` is the key within rope_parameters of layers that have their own, else "".
ConfigReader rotary_parameters(const RotarySpec& spec, const ConfigReader& config,
                               const std::string& layer_type, bool scaled) {
  static const nlohmann::ordered_json none = nlohmann::ordered_json::object();
  if (const auto scaling = said(config, "rope_scaling"); scaling && scaled) {
    refuse_nested(config, "rope_scaling");
    return *scaling;
  }
  const auto all = said(config, "rope_parameters");
  if (all && layer_type.empty()) {
    refuse_nested(config, "rope_parameters");
    return *all;
  }
  if (all) {
    if (const auto own = said(*all, layer_type)) return *own;
  }
  return ConfigReader(config.file(), spec.parameters.is_object() ? spec.parameters : none,
                      config.pointer("rope_parameters"));
}

void check_finite(const RotaryConfig& rotary, double theta, const ConfigReader& scaling) {
  const auto wrong = [](float value) { return !std::isfinite(value); };
  if (std::isinf(static_cast<float>(theta)) || std::ranges::any_of(rotary.inverse_frequency, wrong) ||
      std::ranges::any_of(rotary.long_inverse_frequency, wrong) || wrong(rotary.attention_factor)) {
    fail(Status::bad_input, "{}: {}: these parameters give rotary frequencies that are not finite in float32",
         escaped(scaling.file()), scaling.whole());
  }
}

/// How many dimensions of a head turn.
std::size_t resolve_dims(const RotarySpec& spec, const ConfigReader& config, const ConfigReader& scaling,
                         std::size_t d_head) {
  const auto said = spec.dims.names.empty() ? std::nullopt : std::optional(config.size(spec.dims));
  const auto inside = scaling.positive(spec.part_names);
  const double part = inside ? *inside : config.positive(spec.part_names).value_or(spec.part);
  const auto dims =
      said.value_or(static_cast<std::size_t>(static_cast<double>(d_head) * std::min(part, 2.0)));
  if (dims > 0 && dims % 2 == 0 && dims <= d_head) return dims;
  fail(Status::bad_input,
       "{}: the head dimension is {} and {} of it turn by rotary position, need an even number of at most "
       "that",
       escaped(config.file()), d_head, dims);
}

struct HeadSizes {
  std::size_t d_head = 0, max_positions = 0;
};

RotaryConfig resolve_with(const RotarySpec& spec, const ConfigReader& config, const ConfigReader& scaling,
                          HeadSizes sizes) {
  const std::size_t dims = resolve_dims(spec, config, scaling, sizes.d_head);
  const double outside = config.positive(spec.theta_names).value_or(spec.theta);
  std::vector<std::string> names = spec.theta_names;
  names.emplace_back("rope_theta");
  const Request request = {scaling,
                           config,
                           scaling.positive(names).value_or(outside),
                           dims,
                           sizes.max_positions,
                           spec.original_otherwise};
  RotaryConfig rotary = resolve_scaling(request, spec);
  rotary.pairing = spec.pairing;
  rotary.dims = dims;
  check_finite(rotary, request.theta, scaling);
  return rotary;
}

}  // namespace

RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config, std::size_t d_head,
                            std::size_t max_positions) {
  const ConfigReader scaling = rotary_parameters(spec, config, spec.sliding ? "full_attention" : "", true);
  return resolve_with(spec, config, scaling, {d_head, max_positions});
}

RotaryConfig resolve_sliding_rotary(const RotarySpec& spec, const ConfigReader& config, std::size_t d_head,
                                    std::size_t max_positions) {
  const SlidingRotarySpec& sliding = spec.sliding.value();
  RotarySpec own = spec;
  own.theta = sliding.theta;
  own.theta_names = {sliding.theta_name};
  const ConfigReader scaling = rotary_parameters(spec, config, "sliding_attention", sliding.scaled);
  return resolve_with(own, config, scaling, {d_head, max_positions});
}

}  // namespace attnctl
