// kinora search DIR... ["TEXT"] [--like CLIP]
#include <algorithm>
#include <array>
#include <iostream>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>

#include "apps/kinora/command.hpp"
#include "apps/kinora/plugins_format.hpp"
#include "core/base/facts.hpp"
#include "core/plugin/service.hpp"
#include "plugins/jobs/curation/search/search.hpp"
#include "plugins/jobs/curation/selections.hpp"
#include "plugins/jobs/curation/where.hpp"
#include "plugins/jobs/embed-text/text_vectors.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSearchHelp = R"(usage: kinora search DIR "TEXT" [options]
       kinora search DIR --like CLIP [options]

Prints the clips of a run that are nearest to a text, by the embeddings of their captions (a job of kind
embed-text), or to a clip, by their image embeddings (a stage embed.*). DIR is the folder of a run, or of a
curate job next to its embed-text job; that of a select or dedup job stands for its run. --in adds more
folders. The first column is the score, the cosine of the embeddings, at most 1. The nearest clips are listed
even if none matches: with MiniLM's captions a score below 0.3 means that there is no such clip. Copies that a
dedup job of the run leaves out and clips that were rejected in the studio are shown, and marked, only with
--copies and --rejected. --where narrows the search to clips whose facts satisfy a condition, in the language
of `where` of select and shard jobs; the run's select jobs add facts: `set`, and the columns of the tables
that they join.

examples:
  kinora search runs/videos "a boat at sea"
  kinora search runs/videos --like video-0007 --top 5
  kinora search runs/videos "a boat at sea" --where "blur >= 20 and duration_s > 2"
  kinora search runs/videos "a boat at sea" --where "set == 'train' and label == 'sea'"
  kinora search runs/videos --like another.mp4 --json        a file is embedded by embed.classic

)";

}  // namespace

Flags search_flags() {
  po::options_description out("options");
  out.add_options()("like", po::value<std::string>()->value_name("CLIP"),
                    "key of a clip in DIR, or a video file")(
      "embedding", po::value<std::string>()->value_name("NAME"),
      "image embedding to use; default: classic, or the only one there is")(
      "top,k", po::value<int64_t>()->default_value(10)->value_name("N"), "number of clips")(
      "in", po::value<std::vector<std::string>>()->composing()->value_name("DIR"),
      "another folder to search")("where", po::value<std::string>()->value_name("CONDITION"),
                                  "only clips whose facts satisfy it, such as \"blur >= 20\"")(
      "copies", "also show clips that a dedup job of the run leaves out as copies")(
      "rejected", "also show clips that were rejected in the studio")(
      "json", "print one line of JSON per clip")("help,h", "this text");
  return out;
}

namespace {

// Describes an error in the arguments; "" if there is none.
std::string wrong_in(const po::variables_map& given) {
  const auto words =
      given.count("text") ? given["text"].as<std::vector<std::string>>() : std::vector<std::string>();
  if (words.size() > 1)
    return fmt::format("{} texts are given; quote the text: \"{}\"", words.size(), fmt::join(words, " "));
  if (!given.count("dir") || given.count("text") + given.count("like") != 1)
    return "expected a folder and either a text or --like CLIP; see kinora search --help";
  if (given["top"].as<int64_t>() < 1)
    return fmt::format("--top {}: must be 1 or more", given["top"].as<int64_t>());
  const std::string asked = words.empty() ? given["like"].as<std::string>() : words.front();
  if (asked.find_first_not_of(" \t\r\n") == std::string::npos)
    return given.count("text") ? "the text is empty; describe the clip, for example \"a boat at sea\""
                               : "--like is empty; give the key of a clip in DIR, or a video file";
  return "";
}

std::string name_in(const core::Collection& clips, const po::variables_map& given) {
  for (const char* option : {"embedding", "name"})
    if (given.count(option)) return given[option].as<std::string>();
  const auto& names = clips.names();
  if (names.size() > 1 && std::ranges::count(names, "classic") == 0)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format(
            "the clips have several embeddings, and none is called 'classic'; name one: --embedding {} "
            "(there are: {})",
            names.front(), fmt::join(names, ", ")));
  return names.size() == 1 ? names.front() : "classic";
}

// Selects the hits to show and counts the ones left out.
class Shown {
 public:
  explicit Shown(const po::variables_map& given)
      : where_(given.count("where") ? given["where"].as<std::string>() : ""),
        copies_(given.count("copies")),
        rejected_(given.count("rejected")) {}

  core::Embedded of(core::Embedded all) {
    core::FactsSeen seen(where_);
    all = core::those(std::move(all), [&](const core::ClipRef& clip) {
      if (!satisfies(clip, seen)) return false;
      const core::Standing standing = standings_.of(clip);
      left_out_copies_ += standing == core::Standing::copy && !copies_;
      left_out_rejected_ += standing == core::Standing::rejected && !rejected_;
      return standing == core::Standing::used || (standing == core::Standing::copy ? copies_ : rejected_);
    });
    seen.require();
    return all;
  }

  core::Standing standing(const core::ClipRef& clip) { return standings_.of(clip); }

  // "" if everything is shown.
  std::string left_out() const {
    std::vector<std::string> what, how;
    if (left_out_copies_ > 0)
      what.push_back(left_out_copies_ == 1 ? "1 copy" : fmt::format("{} copies", left_out_copies_)),
          how.push_back("--copies");
    if (left_out_rejected_ > 0)
      what.push_back(left_out_rejected_ == 1 ? "1 rejected clip"
                                             : fmt::format("{} rejected clips", left_out_rejected_)),
          how.push_back("--rejected");
    return what.empty()
               ? ""
               : fmt::format("left out: {}; show with {}", fmt::join(what, ", "), fmt::join(how, " "));
  }

 private:
  bool satisfies(const core::ClipRef& clip, core::FactsSeen& seen) {
    if (where_.rules().empty()) return true;
    json facts = core::object_in_file(clip.folder / (clip.key + ".json"));
    auto added = added_.find(clip.folder);
    if (added == added_.end())
      added = added_.emplace(clip.folder, core::added_beside(clip.folder.parent_path())).first;
    if (const auto own = added->second.find(clip.key); own != added->second.end())
      facts.merge_patch(own->second);
    seen.add(facts);
    return !where_.removed_by(facts, clip.key);
  }

  const core::Where where_;
  core::Standings standings_;
  std::map<fs::path, std::map<std::string, json>>
      added_;  // facts that select jobs have added, by data folder and key
  bool copies_, rejected_;
  int64_t left_out_copies_ = 0, left_out_rejected_ = 0;
};

std::vector<core::Hit> like(core::Runtime& runtime, const core::Collection& clips,
                            const po::variables_map& given, size_t top, Shown& shown) {
  const std::string example = given["like"].as<std::string>(), name = name_in(clips, given);
  core::Embedded all = clips.pictures(name);
  if (const int64_t row = core::row_of(all, example); row >= 0) {
    const auto found = all.row(static_cast<size_t>(row));
    const std::vector<float> query(found.begin(), found.end());
    const core::ClipRef itself = all.clips[static_cast<size_t>(row)];
    all = core::those(std::move(all), [&](const core::ClipRef& clip) {
      return clip.key != itself.key || clip.folder != itself.folder;
    });
    if (all.clips.empty())
      std::cerr << fmt::format(
          "{} is the only clip with an embedding '{}'; there is no other clip to compare it with\n", example,
          name);
    return core::nearest(shown.of(std::move(all)), query, top);
  }
  if (!fs::is_regular_file(example))
    throw Error(KINORA_ERROR_INVALID, "--like " + example + ": neither a key with an embedding '" + name +
                                          "' here nor a video file");
  if (name != "classic")
    throw Error(KINORA_ERROR_UNSUPPORTED, "--like " + example +
                                              ": only 'classic' can be computed for a file; for '" + name +
                                              "' give the key of a clip");
  all = shown.of(std::move(all));
  return core::nearest(all, core::video_query(runtime, example), top);
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

void print(const std::vector<core::Hit>& hits, bool as_json, Shown& shown) {
  constexpr std::array kMarks{"", "copy", "rejected"};
  const auto mark_of = [&](const core::Hit& hit) {
    return kMarks.at(static_cast<size_t>(shown.standing(hit.clip)));
  };
  const bool is_marked =
      std::any_of(hits.begin(), hits.end(), [&](const auto& hit) { return *mark_of(hit) != 0; });
  std::vector<std::vector<std::string>> lines;
  core::Captions captions;
  for (const auto& hit : hits) {
    const auto& [clip, score] = hit;
    const std::string path = fs::exists(clip.media()) ? clip.media().string() : clip.folder.string();
    json line{{"key", clip.key}, {"score", score}, {"caption", captions.of(clip)}, {"path", path}};
    if (*mark_of(hit)) line[mark_of(hit)] = true;
    if (as_json) std::cout << line.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
    lines.push_back({fmt::format("{:.4f}", score), one_line(clip.key), one_line(captions.of(clip)), path});
    if (is_marked) lines.back().insert(lines.back().begin() + 2, mark_of(hit));
  }
  if (!as_json) std::cout << aligned(lines);
  std::cout << std::flush;
  if (const std::string rest = shown.left_out(); !rest.empty()) std::cerr << rest << "\n";
}

void say_if_nothing_matches(const core::Embedded& captions, const std::vector<core::Hit>& hits) {
  const std::string why = hits.empty() ? "" : core::nothing_matches(captions, hits.front().score);
  if (!why.empty()) std::cerr << why << "\n";
}

}  // namespace

int search_command(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = search_flags();
  po::options_description all;
  all.add(visible).add_options()("dir", po::value<std::string>())("text",
                                                                  po::value<std::vector<std::string>>())(
      "name", po::value<std::string>());  // the former name of --embedding, for this release
  po::positional_options_description positional;
  positional.add("dir", 1).add("text", -1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  po::notify(given);
  if (given.count("help")) {
    std::cout << help_of(kSearchHelp, visible);
    return kDone;
  }
  if (const std::string wrong = wrong_in(given); !wrong.empty()) return complain(kUsage, "search: " + wrong);
  std::vector<fs::path> folders{core::folder_with_clips(given["dir"].as<std::string>())};
  if (given.count("in"))
    for (const auto& more : given["in"].as<std::vector<std::string>>())
      folders.push_back(core::folder_with_clips(more));
  Shown shown(given);
  const core::Collection clips(folders);
  const auto top = static_cast<size_t>(given["top"].as<int64_t>());
  if (given.count("like")) {
    print(like(runtime, clips, given, top, shown), given.count("json"), shown);
    return kDone;
  }
  const core::Embedded captions = shown.of(clips.captions());
  const auto question = core::service<core::TextVectors>(runtime.registry())
                            .embed(runtime, captions.encoder, given["text"].as<std::vector<std::string>>());
  const auto hits = core::nearest(captions, question.front(), top);
  print(hits, given.count("json"), shown);
  say_if_nothing_matches(captions, hits);
  return kDone;
}

}  // namespace kinora
