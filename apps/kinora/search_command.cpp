// kinora search DIR... ["TEXT"] [--like CLIP]
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "apps/kinora/plugins_format.hpp"
#include "core/search/copies.hpp"
#include "core/search/search.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kHelp = R"(usage: kinora search DIR "TEXT" [options]
       kinora search DIR --like CLIP [options]

The clips of a run that are nearest to a text, by the embeddings of their captions (a job of kind embed-text), or to a clip,
by their embeddings of pictures (a stage embed.*). DIR is the folder of a run, or of a curate job in it, beside which its
embed-text job is found; --in adds more of them. Copies that a dedup job of the run leaves out are not shown without --copies.

examples:
  kinora search runs/films "a boat at sea"
  kinora search runs/films --like film-0007 --top 5
  kinora search runs/films --like another.mp4 --json        a file is seen by embed.classic

)";

po::options_description flags() {
  po::options_description out("options");
  out.add_options()("like", po::value<std::string>()->value_name("CLIP"), "a key of DIR, or a video file")(
      "name", po::value<std::string>()->value_name("NAME"),
      "which embedding of pictures; else classic, or the only one there is")(
      "top,k", po::value<int64_t>()->default_value(10)->value_name("N"), "how many clips")(
      "in", po::value<std::vector<std::string>>()->composing()->value_name("DIR"), "another folder")(
      "copies", "show also clips that a dedup job of the run leaves out as copies")("json", "one line of JSON a clip")("help,h", "this text");
  return out;
}

// What is wrong with the question; "" if nothing is.
std::string wrong_in(const po::variables_map& given) {
  if (!given.count("dir") || given.count("text") + given.count("like") != 1)
    return "give a folder, and either a text or --like CLIP; see kinora search --help";
  if (given["top"].as<int64_t>() < 1)
    return fmt::format("--top {} shows no clip; give 1 or more", given["top"].as<int64_t>());
  const char* what = given.count("text") ? "text" : "like";
  if (given[what].as<std::string>().find_first_not_of(" \t\r\n") == std::string::npos)
    return given.count("text") ? "the text is empty; say what the clip shows, for example \"a boat at sea\""
                               : "--like is empty; give a key of DIR, or a video file";
  return "";
}

std::string name_in(const core::Collection& clips, const po::variables_map& given) {
  if (given.count("name")) return given["name"].as<std::string>();
  const auto& names = clips.names();
  return names.size() == 1 ? names.front() : "classic";
}

core::Embedded shown(core::Embedded all, const po::variables_map& given) {
  return given.count("copies") ? all : core::without_copies(std::move(all));
}

std::vector<core::Hit> like(core::Runtime& runtime, const core::Collection& clips,
                            const po::variables_map& given, size_t top) {
  const std::string example = given["like"].as<std::string>(), name = name_in(clips, given);
  core::Embedded all = clips.pictures(name);
  if (const int64_t row = core::row_of(all, example); row >= 0) {
    const auto found = all.row(static_cast<size_t>(row));
    const std::vector<float> query(found.begin(), found.end());
    all = shown(std::move(all), given);
    return core::nearest(all, query, top, core::row_of(all, example));
  }
  if (!fs::is_regular_file(example))
    throw Error(KINORA_NOT_FOUND, "--like " + example + ": it is neither a key with an embedding '" + name +
                                      "' here nor a video file");
  if (name != "classic")
    throw Error(KINORA_UNSUPPORTED, "--like " + example + ": only 'classic' can be computed of a file; of '" +
                                        name + "' give the key of a clip");
  all = shown(std::move(all), given);
  return core::nearest(all, core::video_query(runtime, example), top);
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

void print(const std::vector<core::Hit>& hits, bool as_json) {
  std::vector<std::vector<std::string>> lines;
  core::Captions captions;
  for (const auto& [clip, score] : hits) {
    const std::string path = fs::exists(clip.media()) ? clip.media().string() : clip.folder.string();
    if (as_json)
      std::cout << json{{"key", clip.key}, {"score", score}, {"caption", captions.of(clip)}, {"path", path}}
                       .dump(-1, ' ', false, json::error_handler_t::replace)
                << "\n";
    else
      lines.push_back({fmt::format("{:.4f}", score), one_line(clip.key), one_line(captions.of(clip)), path});
  }
  if (!as_json) std::cout << aligned(lines);
}

}  // namespace

int search_command(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = flags();
  po::options_description all;
  all.add(visible).add_options()("dir", po::value<std::string>())("text", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("dir", 1).add("text", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  po::notify(given);
  if (given.count("help")) {
    std::cout << kHelp << visible;
    return kDone;
  }
  if (const std::string wrong = wrong_in(given); !wrong.empty()) return complain(kUsage, "search: " + wrong);
  std::vector<fs::path> folders{given["dir"].as<std::string>()};
  if (given.count("in"))
    for (const auto& more : given["in"].as<std::vector<std::string>>()) folders.emplace_back(more);
  const core::Collection clips(folders);
  const auto top = static_cast<size_t>(given["top"].as<int64_t>());
  if (given.count("like")) {
    print(like(runtime, clips, given, top), given.count("json"));
    return kDone;
  }
  const core::Embedded captions = shown(clips.captions(), given);
  const auto question = core::text_vectors(runtime, captions.encoder, {given["text"].as<std::string>()});
  print(core::nearest(captions, question.front(), top), given.count("json"));
  return kDone;
}

}  // namespace kinora
