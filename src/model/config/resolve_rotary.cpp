#include <algorithm>
#include <cmath>
#include <numbers>

#include <nlohmann/json.hpp>

#include "model/config/resolve.hpp"

namespace attnctl::model {
namespace {

// Operations are rounded to float32 where transformers rounds them, because the effect of a different
// rounding of an inverse frequency grows with the position.

struct RotaryRequest {
  const ConfigReader& scaling;  // rope_parameters or rope_scaling; may be empty
  const ConfigReader& config;
  double theta;
  std::size_t dims;
  std::size_t max_positions;
  std::size_t default_original;  // default of original_max_position_embeddings
};

const std::vector<std::string> kTypeNames = {"rope_type", "type"};

/// Returns theta^(2j/r) for each j < r/2, where r is the number of rotated dimensions.
std::vector<float> frequency_powers(const RotaryRequest& request) {
  std::vector<float> out(request.dims / 2);
  for (std::size_t j = 0; j < out.size(); ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(request.dims);
    out[j] = std::pow(static_cast<float>(request.theta), exponent);
  }
  return out;
}

double required_parameter(const RotaryRequest& request, const std::string& name) {
  const auto value = request.scaling.optional_positive({name});
  if (!value) request.scaling.refuse({name}, "missing, need a number above 0");
  return *value;
}

double parameter(const RotaryRequest& request, const std::string& name, double default_value) {
  return request.scaling.optional_positive({name}).value_or(default_value);
}

std::size_t original_positions(const RotaryRequest& request) {
  const std::string name = "original_max_position_embeddings";
  if (const auto outside = request.config.optional_size({name})) return *outside;
  return request.scaling.optional_size({name}).value_or(request.default_original);
}

RotaryConfig plain_rotary(const RotaryRequest& request) {
  RotaryConfig rotary;
  rotary.inverse_frequency = frequency_powers(request);
  for (float& value : rotary.inverse_frequency) value = 1.0F / value;
  return rotary;
}

RotaryConfig linear_rotary(const RotaryRequest& request) {
  RotaryConfig rotary = plain_rotary(request);
  const auto factor = static_cast<float>(required_parameter(request, "factor"));
  for (float& inverse : rotary.inverse_frequency) inverse = inverse / factor;
  return rotary;
}

RotaryConfig llama3_rotary(const RotaryRequest& request) {
  RotaryConfig rotary = plain_rotary(request);
  const double low_frequency = required_parameter(request, "low_freq_factor");
  const double high_frequency = required_parameter(request, "high_freq_factor");
  if (high_frequency <= low_frequency)
    request.scaling.reject(*request.scaling.find("high_freq_factor"), "a number above low_freq_factor");
  const auto factor = static_cast<float>(required_parameter(request, "factor"));
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

/// Returns the index j (not rounded) of the pair of dimensions that makes `rotations` full turns within
/// `original` positions.
double correction_dimension(const RotaryRequest& request, double rotations, std::size_t original) {
  return static_cast<double>(request.dims) *
         std::log(static_cast<double>(original) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(request.theta));
}

double yarn_magnitude(double scale, double factor = 1) {
  return scale <= 1 ? 1.0 : 0.1 * factor * std::log(scale) + 1.0;
}

double yarn_attention_factor(const RotaryRequest& request, double factor) {
  const auto all = request.scaling.optional_number({"mscale_all_dim"}).value_or(0);
  const auto some = request.scaling.optional_number({"mscale"}).value_or(0);
  const double inferred = some != 0 && all != 0 ? yarn_magnitude(factor, some) / yarn_magnitude(factor, all)
                                                : yarn_magnitude(factor);
  return parameter(request, "attention_factor", inferred);
}

RotaryConfig yarn_rotary(const RotaryRequest& request) {
  const std::size_t original = original_positions(request);
  const double ratio = static_cast<double>(request.max_positions) / static_cast<double>(original);
  const double factor = parameter(request, "factor", ratio);
  double low = correction_dimension(request, parameter(request, "beta_fast", 32), original);
  double high = correction_dimension(request, parameter(request, "beta_slow", 1), original);
  if (request.scaling.flag("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(request.dims) - 1);
  if (low == high) high += 0.001;

  RotaryConfig rotary;
  rotary.inverse_frequency = frequency_powers(request);
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

std::vector<float> scaled_by_list(const RotaryRequest& request, const std::string& name) {
  const auto factors = request.scaling.find(name);
  const std::string need = fmt::format("a list of {} numbers", request.dims / 2);
  if (!factors) request.scaling.refuse({name}, "missing, need {}", need);
  const auto right = [](const nlohmann::ordered_json& factor) {
    return factor.is_number() && std::isfinite(factor.get<double>()) && factor.get<double>() > 0;
  };
  if (!factors->json->is_array()) request.scaling.reject(*factors, "a list of numbers");
  if (!std::ranges::all_of(*factors->json, right))
    request.scaling.reject(*factors, "a list of numbers above 0");
  if (factors->json->size() != request.dims / 2) request.scaling.reject(*factors, need);
  std::vector<float> inverse = frequency_powers(request);
  for (std::size_t j = 0; j < inverse.size(); ++j)
    inverse[j] = 1.0F / (static_cast<float>((*factors->json)[j].get<double>()) * inverse[j]);
  return inverse;
}

RotaryConfig longrope_rotary(const RotaryRequest& request) {
  RotaryConfig rotary;
  rotary.inverse_frequency = scaled_by_list(request, "short_factor");
  rotary.long_inverse_frequency = scaled_by_list(request, "long_factor");
  rotary.long_from = original_positions(request);
  const auto original = static_cast<double>(rotary.long_from);
  const double factor = parameter(request, "factor", static_cast<double>(request.max_positions) / original);
  const double inferred = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  rotary.attention_factor = static_cast<float>(parameter(request, "attention_factor", inferred));
  return rotary;
}

constexpr std::pair<std::string_view, RotaryConfig (*)(const RotaryRequest&)> kRotaryScalings[] = {
    {"default", plain_rotary}, {"linear", linear_rotary},     {"llama3", llama3_rotary},
    {"yarn", yarn_rotary},     {"longrope", longrope_rotary}, {"su", longrope_rotary}};

RotaryConfig resolve_scaling(const RotaryRequest& request, const RotarySpec& spec) {
  const std::string type = request.scaling.optional_text(kTypeNames).value_or("default");
  if (spec.yarn_is_longrope && type == "yarn") return longrope_rotary(request);
  for (const auto& [name, resolve] : kRotaryScalings) {
    if (name == type) return resolve(request);
  }
  request.scaling.reject_unsupported(*request.scaling.find(kTypeNames),
                                     "default, linear, llama3, yarn, longrope, su");
}

std::optional<ConfigReader> non_empty_object(const ConfigReader& config, const std::string& name) {
  const auto value = config.find(name);
  if (!value || (value->json->is_object() && value->json->empty())) return std::nullopt;
  return config.optional_object(name);
}

void reject_nested(const ConfigReader& parameters) {
  for (const auto& [key, parameter] : parameters.object().items()) {
    if (parameter.is_object())
      parameters.reject_unsupported({key, &parameter}, "one set of parameters for all layers");
  }
}

/// Returns the object with the rotary parameters, or the family's default if the configuration has none. As
/// in transformers, if rope_scaling is not empty, all of rope_parameters is ignored, even its rope_theta. If
/// `scaled` is false, rope_scaling is ignored instead. `layer_type` selects one object inside
/// rope_parameters, for models whose layer types have different parameters; "" if all layers have the same.
ConfigReader rotary_parameters(const RotarySpec& spec, const ConfigReader& config,
                               const std::string& layer_type, bool scaled) {
  static const nlohmann::ordered_json none = nlohmann::ordered_json::object();
  if (const auto scaling = non_empty_object(config, "rope_scaling"); scaling && scaled) {
    reject_nested(*scaling);
    return *scaling;
  }
  if (const auto all = non_empty_object(config, "rope_parameters")) {
    if (layer_type.empty()) {
      reject_nested(*all);
      return *all;
    }
    if (const auto own = non_empty_object(*all, layer_type)) return *own;
  }
  return ConfigReader(config.file(), spec.parameters.is_object() ? spec.parameters : none,
                      config.pointer("rope_parameters"));
}

void check_finite(const RotaryConfig& rotary, double theta, const ConfigReader& scaling) {
  const auto check = [&](std::string_view name, double value) {
    if (std::isfinite(static_cast<float>(value))) return;
    fail(Status::bad_input, "{}: {}: got {} {}, which is not finite in float32", escaped(scaling.file()),
         scaling.object_pointer(), name, value);
  };
  check("theta", theta);
  check("attention factor", rotary.attention_factor);
  for (const float frequency : rotary.inverse_frequency) check("inverse frequency", frequency);
  for (const float frequency : rotary.long_inverse_frequency) check("inverse frequency", frequency);
}

std::size_t resolve_rotary_dims(const RotarySpec& spec, const ConfigReader& config,
                                const ConfigReader& scaling, std::size_t d_head) {
  const auto inside = scaling.optional_positive(spec.fraction_names);
  const double fraction =
      inside ? *inside : config.optional_positive(spec.fraction_names).value_or(spec.fraction);
  const auto by_fraction = static_cast<std::size_t>(static_cast<double>(d_head) * std::min(fraction, 2.0));
  const std::size_t dims = spec.dims.names.empty() ? by_fraction : config.size(spec.dims);
  if (dims > 0 && dims % 2 == 0 && dims <= d_head) return dims;
  const auto& names = spec.dims.names.empty() ? spec.fraction_names : spec.dims.names;
  const ConfigReader& place = spec.dims.names.empty() && inside ? scaling : config;
  fail(Status::bad_input,
       "{}: {} of {} head dimensions have rotary position ({}); need an even number from 2 to {}",
       escaped(config.file()), dims, d_head, place.pointer(names), d_head);
}

}  // namespace

RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config, std::size_t d_head,
                            std::size_t max_positions, bool sliding) {
  const ConfigReader scaling =
      sliding ? rotary_parameters(spec, config, "sliding_attention", spec.sliding->scaled)
              : rotary_parameters(spec, config, spec.sliding ? "full_attention" : "", true);
  const std::size_t dims = resolve_rotary_dims(spec, config, scaling, d_head);
  std::vector<std::string> names = sliding ? std::vector{spec.sliding->theta_name} : spec.theta_names;
  const double outside = config.optional_positive(names).value_or(sliding ? spec.sliding->theta : spec.theta);
  names.emplace_back("rope_theta");
  const double theta = scaling.optional_positive(names).value_or(outside);
  const std::size_t original = spec.default_original > 0 ? spec.default_original : max_positions;
  RotaryConfig rotary = resolve_scaling({scaling, config, theta, dims, max_positions, original}, spec);
  rotary.pairing = spec.pairing;
  rotary.dims = dims;
  check_finite(rotary, theta, scaling);
  return rotary;
}

}  // namespace attnctl::model
