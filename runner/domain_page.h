// The page over domains, written beside a suite's tables.
#pragma once

#include <string>
#include <vector>

#include "framework/comparison/domains.h"
#include "framework/report/domain_report.h"

namespace attnlab {

/// "2026-11-23 17:00 UTC".
std::string now_in_utc();

/// Writes page.html, page.md, page.json, page.tex, page.svg and, with ranks, ranks.svg; removes
/// that of an earlier page without.
/// @returns their paths. @throws FileError.
std::vector<std::string> write_domain_page(const DomainPage& page, const std::string& folder,
                                           const std::string& command);

/// Removes a file of an earlier call that would pass for this one's; there need be none.
/// @throws FileError.
void remove_older(const std::string& path);

/// Removes the page that a suite or sweep wrote into its folder; one of `attnlab page` stays, which
/// says itself when and of what it was made. @throws FileError.
void remove_suite_page(const std::string& folder);

}  // namespace attnlab
