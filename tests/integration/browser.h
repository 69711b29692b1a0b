// A page in a real browser without a window: what goes wrong in it, and what a script of ours sees.
#pragma once

#include <string>
#include <vector>

#include "framework/base/json.h"

namespace attnlab::testing {

/// The first browser of Chromium's family in PATH; empty without one.
std::string browser();

/// A page with two scripts more. The first runs before all others, and keeps errors, requests that
/// the page's policy forbids, and complaints in `problems`. The last is `look`, which must fill
/// `seen`. Of a page that allows no scripts the policy is left out.
std::string watched(std::string page, const std::string& look);

/// What `look` saw, once a browser has shown the page.
/// @param folder   the page's; the browser writes below it
/// @param address  "look.html#theme=dark"
/// @throws std::runtime_error where the scripts did not get to their end.
nlohmann::json seen_in_browser(const std::string& folder, const std::string& address,
                               const std::vector<std::string>& flags = {"--disable-gpu"});

}  // namespace attnlab::testing
