#include "runner/arguments.h"

#include <fmt/format.h>

#include <iostream>

#include "framework/base/error.h"
#include "framework/config/compose.h"

namespace attnlab {

namespace po = boost::program_options;

std::string Arguments::text(const std::string& option, const std::string& otherwise) const {
  return has(option) ? options[option].as<std::string>() : otherwise;
}

Arguments parse_arguments(const Words& words, Usage& usage) {
  usage.options.add_options()("help,h", "show this help");
  if (!words.empty() && words.back() == kAskUsage) throw UsageAsked{usage};
  po::options_description all;
  all.add(usage.options);
  all.add_options()("words", po::value<Words>());
  po::positional_options_description positional;
  positional.add("words", -1);
  Arguments parsed;
  try {
    po::store(po::command_line_parser(words).options(all).positional(positional).run(),
              parsed.options);
    po::notify(parsed.options);
  } catch (const po::error& error) {
    throw ConfigError(fmt::format("{}\nusage: {}", error.what(), usage.synopsis));
  }
  if (parsed.has("help")) {
    std::cout << "usage: " << usage.synopsis << "\n\n" << usage.about << "\n\n" << usage.options;
    parsed.help = true;
    return parsed;
  }
  const Words given = parsed.has("words") ? parsed.options["words"].as<Words>() : Words{};
  for (const std::string& word : given) {
    const bool changes = usage.takes_overrides && is_override(word);
    (changes ? parsed.overrides : parsed.words).push_back(word);
  }
  if (parsed.words.size() < usage.fewest_words || parsed.words.size() > usage.most_words) {
    const bool few = parsed.words.size() < usage.fewest_words;
    throw ConfigError(fmt::format("{}\nusage: {}", few ? "something is missing" : "too many words",
                                  usage.synopsis));
  }
  return parsed;
}

bool is_override(const std::string& word) {
  const std::size_t sign = word.find_first_of("=/");
  return sign != std::string::npos && word[sign] == '=';
}

Node options_from(const Words& overrides, const std::string& source) {
  Node options = Node::map(Place{source, 0, 0});
  for (const std::string& word : overrides) merge(options, parse_override(word));
  interpolate(options);
  return options;
}

}  // namespace attnlab
