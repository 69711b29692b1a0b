// Names and versions of what is shared.
#pragma once

#include <string>
#include <string_view>

#include "framework/sharing/errors.h"

namespace attnlab::sharing {

/// As file systems without upper case see a text.
std::string lower(std::string text);

/// "acme/learned_temperature", taken apart.
struct Id {
  std::string lab, name;
  std::string str() const { return lab + "/" + name; }
  bool operator==(const Id&) const = default;
};

/// A lab or a plugin's name: 1 to 64 of a-z, 0-9, `_` and `-`, beginning with a letter. No other
/// alphabet: its letters look like ours. @throws BundleError.
void check_name(const std::string& name, const std::string& what);

/// @throws BundleError when it is not lab/name.
Id parse_id(const std::string& text);

/// What a name looks like at a glance: `0` as `o`, `1` and `i` as `l`, `rn` as `m`, `-` as `_`...
/// Two names with the same look could be taken for each other.
std::string look_of(std::string_view name);

/// Whether a lab's name is attnlab's own, or could be taken for it: nobody else may have it. Nor
/// may anybody be called `python`, as the ids of files that compositions name begin.
bool is_reserved_lab(const std::string& lab);

/// Numbers separated by dots, then perhaps "-" and letters: 1.2.0, 0.3, 2.0.0-beta1.
/// @throws BundleError for another text.
void check_version(const std::string& version);

/// Below 0, 0 or above 0 as the first version is older, the same or newer. Parts are compared as
/// numbers; what stands behind "-" is older than nothing there.
int compare_versions(const std::string& first, const std::string& second);

/// A date of the calendar as "2027-11-23", today in UTC moved by so many days.
std::string date_in(int days);
/// @throws ConfigError when a text is not a date.
void check_date(const std::string& date, const std::string& what);
/// "2026-11-23T16:00:00Z", now.
std::string time_text();

}  // namespace attnlab::sharing
