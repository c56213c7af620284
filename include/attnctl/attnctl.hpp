#pragma once

// Includes the whole C++ interface of attnctl (docs/library.md).
#include "attnctl/analyze.hpp"
#include "attnctl/compare.hpp"
#include "attnctl/error.hpp"
#include "attnctl/input.hpp"
#include "attnctl/matrix_view.hpp"
#include "attnctl/model.hpp"
#include "attnctl/observer.hpp"
#include "attnctl/results.hpp"
#include "attnctl/run.hpp"
#include "attnctl/study.hpp"
#include "attnctl/tokenizer.hpp"
#include "attnctl/version.hpp"
