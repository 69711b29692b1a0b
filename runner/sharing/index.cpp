// attnlab index make|add|update|list|remove and attnlab plugin search.
#include "framework/sharing/index.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/sharing/fetch.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/index_list.h"
#include "runner/sharing/sharing.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

constexpr const char* kHelp = R"(usage: attnlab index COMMAND

  attnlab index make FOLDER       publish the bundles of a folder: any web server can serve it
  attnlab index add URL|FOLDER    search and install from a lab's index
  attnlab index update            get newer copies of all indices
  attnlab index list              indices that were added
  attnlab index remove URL|FOLDER forget one

`attnlab index COMMAND --help` tells more.
)";

int make(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab index make FOLDER --lab LAB [--days N]";
  usage.about =
      "Writes FOLDER/index.json, a list of the bundles in the folder, signed with LAB's key\n"
      "(attnlab key new), and the key itself, lab.pub. Serve the folder by any web server, keep\n"
      "it in a repository or on a shared disk. Make it again when bundles are added, and before\n"
      "it expires: then others notice if an old index is served to them.";
  usage.options.add_options()("lab", po::value<std::string>()->value_name("LAB"), "who publishes")(
      "days", po::value<int>()->value_name("N")->default_value(90),
      "days for which the index is valid");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string lab = arguments.text("lab", ""), folder = arguments.words[0];
  const int days = arguments.options["days"].as<int>();
  if (lab.empty()) throw ConfigError("--lab is missing\nusage: " + usage.synopsis);
  if (days < 1 || days > 3650) throw ConfigError("--days: expected 1 to 3650");
  sharing::Keyring keys(sharing::Places::of_this_user().keys());
  const std::string password = keys.has_secret(lab) && keys.secret_is_encrypted(lab)
                                   ? password_for("password of the key of " + lab)
                                   : "";
  const sharing::SecretKey key = keys.secret(lab, password);
  const sharing::Index index =
      make_index(folder, lab, key, keys.own_card(lab), days, keys.seen_index(lab));
  keys.note_index({lab, index.serial, sharing::sha256(write_index(index))}, folder);
  std::cout << fmt::format("{}/{}: number {} of lab '{}', {} bundles, until {}\n", folder,
                           sharing::kIndexFile, index.serial, lab, index.bundles.size(),
                           index.expires);
  return kDone;
}

void report(const std::string& place, const sharing::Index& index) {
  std::cout << fmt::format("{}: lab '{}', {} bundles, number {}, until {}\n", sharing::shown(place),
                           index.lab, index.bundles.size(), index.serial, index.expires);
}

int add(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab index add URL|FOLDER [--yes]";
  usage.about =
      "Adds a lab's index for attnlab plugin search and install. The first time, the lab's key\n"
      "is shown, and pinned to the lab if you agree.";
  usage.options.add_options()("yes,y", "answer every question with yes");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Places places = sharing::Places::of_this_user();
  sharing::Keyring keys(places.keys());
  sharing::IndexList indices(places.indices());
  report(arguments.words[0],
         indices.take(arguments.words[0], keys, sharing::read_policy(places.policy()),
                      asker(arguments.has("yes"))));
  return kDone;
}

int update(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab index update";
  usage.about = "Takes newer copies of all indices that were added.";
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Places places = sharing::Places::of_this_user();
  sharing::Keyring keys(places.keys());
  sharing::IndexList indices(places.indices());
  const std::vector<sharing::AddedIndex> all = indices.all();
  bool failed = false;
  for (const sharing::AddedIndex& one : all) {
    try {
      report(one.place,
             indices.take(one.place, keys, sharing::read_policy(places.policy()), nullptr));
    } catch (const Error& error) {  // the others are tried, too
      std::cerr << "attnlab index update: " << message_text(error.what()) << "\n";
      failed = true;
    }
  }
  return failed ? kRunFailed : kDone;
}

int list(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab index list";
  usage.about = "Lists the indices that were added.";
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::IndexList indices(sharing::Places::of_this_user().indices());
  if (indices.all().empty()) std::cout << "no index was added\n";
  for (const sharing::AddedIndex& one : indices.all()) {
    const bool expired = one.expires < sharing::date_in(0);
    std::cout << fmt::format("{}  lab '{}', number {}, taken {}, {} {}\n",
                             sharing::shown(one.place), one.lab, one.serial, one.taken,
                             expired ? "EXPIRED on" : "until", one.expires);
  }
  return kDone;
}

int remove(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab index remove URL|FOLDER";
  usage.about = "Forgets an index. The lab's key and what was installed stay.";
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  sharing::IndexList indices(sharing::Places::of_this_user().indices());
  indices.remove(arguments.words[0]);
  std::cout << "removed\n";
  return kDone;
}

}  // namespace

int index_command(const Words& words) {
  return run_subcommand(
      "index", kHelp, words,
      {{"make", make}, {"add", add}, {"update", update}, {"list", list}, {"remove", remove}});
}

int plugin_search_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin search WORD [--json]";
  usage.about =
      "Lists bundles whose entry contains the word, in the local copies of the added indices;\n"
      "needs no network (attnlab index update gets newer copies).";
  usage.options.add_options()("json", "as JSON");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::IndexList indices(sharing::Places::of_this_user().indices());
  std::vector<std::string> expired;
  const auto found = indices.search(arguments.words[0], expired);
  nlohmann::json out = nlohmann::json::array();
  fmt::memory_buffer lines;  // written at once: there may be ten thousand
  for (const sharing::Found& one : found) {
    const sharing::IndexEntry& entry = one.entry;
    if (arguments.has("json")) {
      out.push_back({{"id", entry.id},
                     {"kind", entry.kind},
                     {"version", entry.version},
                     {"summary", entry.summary},
                     {"licence", entry.licence},
                     {"file", entry.file},
                     {"sha256", entry.sha256},
                     {"index", sharing::shown(one.place)}});
    } else {
      fmt::format_to(fmt::appender(lines), "{:<10} {:<32} {:<10} {}\n", entry.kind, entry.id,
                     entry.version, printable(entry.summary));
    }
  }
  std::cout.write(lines.data(), static_cast<std::streamsize>(lines.size()));
  if (arguments.has("json")) std::cout << json_text(out);
  for (const std::string& place : expired) {
    std::cerr << "the copy of index " << place << " has expired; attnlab index update\n";
  }
  if (found.empty()) std::cerr << "nothing was found in " << indices.all().size() << " indices\n";
  return kDone;
}

}  // namespace attnlab
