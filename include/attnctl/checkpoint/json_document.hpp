#pragma once

#include "attnctl/base/json_document.hpp"
