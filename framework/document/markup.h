// Text that comes from users, made safe for what it is written into: HTML, LaTeX, BibTeX, CSV, and
// JSON inside a script element.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// For element content and for attributes in double quotes. Control characters but newline and tab
/// become U+FFFD: HTML has no way to write them.
std::string html_text(std::string_view text);

/// For running text of LaTeX and for values of BibTeX.
std::string latex_text(std::string_view text);

/// One field by RFC 4180, as `printable` text: quoted where it holds a comma, a quote or a line
/// break.
std::string csv_field(std::string_view text);
/// One record with its CRLF.
std::string csv_record(const std::vector<std::string>& fields);

/// Compact JSON that cannot end the script element that it stands in: no '<' and no "-->".
std::string script_json(const nlohmann::json& value);

}  // namespace attnlab
