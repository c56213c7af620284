#pragma once

#include <vector>

#include <nlohmann/json.hpp>

// The members of these templates are compiled once, in json.cpp, and not in each source that includes this
// header.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class std::vector<nlohmann::ordered_json>;
