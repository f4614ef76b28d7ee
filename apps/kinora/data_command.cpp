// kinora data index|verify|inspect|preview PATH
#include <algorithm>
#include <iostream>
#include <map>

#include <boost/program_options.hpp>

#include "apps/command/surroundings.hpp"
#include "apps/kinora/command.hpp"
#include "apps/kinora/commands.hpp"
#include "apps/kinora/data_print.hpp"
#include "core/base/quantity.hpp"
#include "core/base/suggest.hpp"
#include "core/base/terminal.hpp"
#include "core/io/io.hpp"
#include "plugins/jobs/data/index.hpp"
#include "plugins/jobs/data/inspect.hpp"
#include "plugins/jobs/data/media.hpp"
#include "plugins/jobs/data/preview.hpp"
#include "plugins/jobs/data/verify.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
using data::DataFolder;

constexpr const char* kDataHelp = R"(
PATH is a folder of WebDataset shards (tar archives), also below other folders, on this machine or on a
storage (s3://bucket/shards). All but index also take one .tar file.

A folder of a web server (https://host/shards) has the shards that its .nv-meta/.info.json lists; it is not
indexed there.

  index      writes Megatron-Energon's index: SHARD.tar.idx next to each shard, and .nv-meta. Each shard is
             read once, by its headers. A shard is not read again if its size and time of modification are
             those of the last index, which makes an interrupted index continue. A damaged shard is reported
             and has the samples before the damage. Of samples with one key the first is in index.sqlite. A
             split.yaml that something else wrote keeps its parts; names of shards that are gone are removed,
             and new shards are added to train. A dataset.yaml that something else wrote stays
  verify     reads all bytes and prints one line per problem: SHARD: KEY at OFFSET: what is wrong; what to do.
             It also finds a shard that was replaced with the same size and time of modification, which index
             and inspect do not see
  inspect    prints numbers and sizes of the samples' fields, what their JSON contains, whether the index is
             current, and one line for each damaged shard (how many samples before the damage are whole) and
             for broken JSON of the up to 1,000 samples it looks at
  preview    writes a page with pictures, keys and captions of some samples, one file that needs no network,
             and prints such lines of them
  order      prints which samples each rank takes at each step of a training

exit codes: 0 done, 1 failed, or a line names a problem of a shard, 2 wrong usage, 130 interrupted

examples:
  kinora data index shards/ --val 0.05
  kinora data verify s3://bucket/shards --media
  kinora data inspect https://data.example.org/shards
  kinora data preview shards/ --out shards.html

)";

// Threads, which most parts take.
Flags flags_with_threads() {
  Flags out;
  out.add_options()("threads", po::value<uint64_t>()->default_value(0, "cores")->value_name("N"),
                    "number of shards that are read at once");
  return out;
}

Flags index_flags() {
  Flags out = flags_with_threads();
  out.add_options()("val", po::value<double>()->value_name("SHARE"),
                    "share of the shards that split.yaml gives to validation; default: as before, else 0")(
      "again", "read every shard, and replace split.yaml and dataset.yaml");
  return out;
}

Flags verify_flags() {
  Flags out = flags_with_threads();
  out.add_options()("media", "also decode every video and picture, in processes of their own")(
      "optional", po::value<std::vector<std::string>>()->composing()->value_name("FIELD"),
      "field that samples may miss; repeatable");
  return out;
}

Flags inspect_data_flags() {
  Flags out = flags_with_threads();
  out.add_options()("json", "print the result as JSON");
  return out;
}

Flags preview_flags() {
  Flags out;
  out.add_options()("out", po::value<std::string>()->value_name("FILE.html"), "file for the page; required")(
      "limit", po::value<uint64_t>()->default_value(24)->value_name("N"), "number of samples on the page");
  return out;
}

// Prints a problem; a progress bar below it is drawn again.
void print_problem(const data::Problem& problem) {
  if (core::draws()) std::cerr << "\r\033[J" << std::flush;
  std::cout << problem.line() << "\n" << std::flush;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const auto& note : notes) std::cerr << "kinora: " << core::printable(note) << "\n";
}

std::string count(uint64_t n, const char* one, const char* more) {
  return core::counted(static_cast<int64_t>(n), one, more);
}

int index_data(core::Runtime&, const DataFolder& folder, const po::variables_map& given) {
  if (folder.is_one_file)
    return complain(kUsage,
                    "data index: " + folder.shards[0].uri + " is one shard; give the folder of the shards");
  if (core::is_web(folder.uri))
    return complain(
        kUsage, "data index: " + folder.uri +
                    ": a web server is only read; run it where the shards are, and upload .nv-meta and the "
                    ".tar.idx files");
  data::IndexOptions options{given["threads"].as<uint64_t>(), given.count("again") > 0, {}};
  if (given.count("val")) options.val = given["val"].as<double>();
  if (options.val && !(*options.val >= 0 && *options.val <= 1))
    return complain(kUsage, fmt::format("--val {}: must be from 0 to 1", *options.val));
  const auto report = data::index_folder(folder, options, print_problem);
  print_notes(report.notes);
  std::string line = count(report.shards, "shard", "shards") + ", " +
                     count(report.samples, "sample", "samples") + fmt::format(", {} damaged", report.damaged);
  if (report.duplicates > 0) line += ", " + count(report.duplicates, "duplicate key", "duplicate keys");
  if (report.is_current)
    line += "; the index was current";
  else if (report.unchanged > 0)
    line += fmt::format("; {} not read again", report.unchanged);
  std::cout << line << "\n";
  return report.damaged + report.duplicates == 0 ? kDone : kFailed;
}

int verify_data(core::Runtime& runtime, const DataFolder& folder, const po::variables_map& given) {
  data::VerifyOptions options;
  options.threads = given["threads"].as<uint64_t>();
  if (given.count("optional"))
    for (const auto& name : given["optional"].as<std::vector<std::string>>()) options.optional.insert(name);
  if (given.count("media"))
    options.decoder = [&runtime]() -> data::DecodeMedium {
      return [decoder = std::make_shared<data::MediaDecoder>(runtime.registry())](
                 const std::string& key, const std::string& field, std::vector<uint8_t> bytes) {
        return decoder->problem(key, field, std::move(bytes));
      };
    };
  const auto report = data::verify_folder(folder, options, print_problem);
  print_notes(report.notes);
  std::cout << count(report.shards, "shard", "shards") << ", " << count(report.samples, "sample", "samples")
            << ", " << core::format_size(report.bytes) << ", "
            << count(report.problems, "problem", "problems") << " in "
            << count(report.shards - report.passed, "shard", "shards") << "\n";
  return report.problems == 0 ? kDone : kFailed;
}

int inspect_data(core::Runtime&, const DataFolder& folder, const po::variables_map& given) {
  const auto overview = data::inspect_folder(folder, given["threads"].as<uint64_t>());
  std::cout << (given.count("json") ? overview_json(overview) : overview_text(overview));
  return overview.problems.empty() ? kDone : kFailed;
}

int preview_data(core::Runtime& runtime, const DataFolder& folder, const po::variables_map& given) {
  if (!given.count("out"))
    return complain(kUsage, "data preview: --out FILE.html is missing; it names the page to write");
  const uint64_t limit = given["limit"].as<uint64_t>();
  if (limit < 1 || limit > 1000)
    return complain(kUsage, fmt::format("--limit {}: must be from 1 to 1000", limit));
  std::optional<data::PictureMaker> pictures;  // samples with previews need none
  const auto picture = [&](const std::string& key, const std::string& field, std::vector<uint8_t> bytes) {
    if (!pictures) pictures.emplace(runtime.registry());
    return (*pictures)(key, field, std::move(bytes));
  };
  bool has_problem = false;
  const auto cards = data::cards_of(folder, limit, picture, [&](const data::Problem& problem) {
    has_problem = true;
    print_problem(problem);
  });
  data::write_small(given["out"].as<std::string>(), data::preview_page(folder, cards));
  std::cout << given["out"].as<std::string>() << ": " << count(cards.size(), "sample", "samples") << "\n";
  return has_problem ? kFailed : kDone;
}

constexpr Subcommand kParts[] = {{"index", "PATH", index_flags, nullptr},
                                 {"verify", "PATH", verify_flags, nullptr},
                                 {"inspect", "PATH", inspect_data_flags, nullptr},
                                 {"preview", "PATH", preview_flags, nullptr},
                                 {"order", "FILE.toml JOB", order_flags, data_order}};

// The work of each part without a run() of its own.
using Run = int (*)(core::Runtime&, const DataFolder&, const po::variables_map&);
Run run_of(const Subcommand& part) {
  static const std::map<std::string_view, Run> runs{
      {"index", index_data}, {"verify", verify_data}, {"inspect", inspect_data}, {"preview", preview_data}};
  return runs.at(part.name);
}

void print_help() {
  const char* before = "usage: ";
  for (const auto& part : kParts) {
    const std::string call = fmt::format("kinora data {} {}", part.name, part.takes);
    std::cout << before << usage_of(call, part.flags()) << "\n";
    before = "       ";
  }
  std::cout << wrapped_prose(kDataHelp);
  for (const auto& part : kParts)
    if (!part.run) std::cout << "options of " << part.name << ":\n" << flags_text(part.flags()) << "\n";
  std::cout << "kinora data order --help: the options of order\n";
}

// Names a flag that another part takes; "" if there is none.
std::string flag_of_another(const Subcommand& part, const Arguments& arguments) {
  const auto has = [](const Flags& flags, const std::string& name) {
    return std::ranges::any_of(flags_in(flags), [&](const Flag& flag) { return flag.name == name; });
  };
  for (const auto& word : arguments) {
    const std::string name = word.substr(0, word.find('='));
    if (!has(part.flags(), name) && std::ranges::any_of(kParts, [&](const auto& other) {
          return !other.run && has(other.flags(), name);
        }))
      return fmt::format("data {}: {} has no effect here; see kinora data --help", part.name, name);
  }
  return "";
}

}  // namespace

std::span<const Subcommand> data_parts() { return kParts; }

int data_command(core::Runtime& runtime, const Arguments& arguments) {
  std::vector<std::string> names;
  for (const auto& part : kParts) names.emplace_back(part.name);
  const auto part = std::ranges::find_if(
      kParts, [&](const auto& p) { return !arguments.empty() && arguments.front() == p.name; });
  if (part != std::end(kParts) && part->run)
    return part->run(runtime, {arguments.begin() + 1, arguments.end()});
  if (std::ranges::any_of(arguments, [](const auto& a) { return a == "--help" || a == "-h"; })) {
    print_help();
    return kDone;
  }
  if (arguments.empty() || arguments.front().starts_with("-"))
    return complain(kUsage,
                    fmt::format("data: give one of {}; see kinora data --help", fmt::join(names, ", ")));
  const std::string name = arguments.front();
  if (part == std::end(kParts))
    return complain(kUsage, fmt::format("unknown command 'data {}'{}; see kinora data --help", name,
                                        core::did_you_mean(name, names)));
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (const auto why = flag_of_another(*part, rest); !why.empty()) return complain(kUsage, why);
  Flags all = part->flags();
  all.add_options()("path", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("path", 1);
  po::variables_map given;
  po::store(po::command_line_parser(rest).options(all).positional(positional).run(), given);
  if (!given.count("path"))
    return complain(kUsage,
                    fmt::format("data {}: a folder of shards is missing: kinora data {} PATH", name, name));
  own_process();
  return run_of(*part)(runtime, data::find_shards(given["path"].as<std::string>()), given);
}

}  // namespace kinora
