// kinora studio DIR [--port N] [--author NAME]
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/command/surroundings.hpp"
#include "apps/kinora/command.hpp"
#include "apps/kinora/run_studio.hpp"
#include "core/base/cancel.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/service.hpp"
#include "plugins/jobs/curation/search/search.hpp"
#include "plugins/jobs/embed-text/text_vectors.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

constexpr const char* kStudioHelp = R"(usage: kinora studio DIR [options]

Serves a page on this machine (127.0.0.1) to browse the clips of a curate job, kept, filtered and failed, and
to change its captions, tag clips and decide which are used. DIR is the folder of a run, of a curate job, or
of a select or dedup job, which opens its run. Prints the page's address, which contains a secret key and is
needed for access, and serves until Ctrl-C.

Changes are written to edits.jsonl in the job's folder, one line each with author and time; the next shard,
embed-text and dedup jobs use them. If a job of kind embed-text has embedded the captions, the page searches
by meaning, else by words. If the curate job has a stage embed.*, the page also searches by image.

examples:
  kinora studio runs/quickstart
  kinora studio runs/quickstart/clips --port 8080 --author mia

)";

}  // namespace

Flags studio_flags() {
  po::options_description out("options");
  out.add_options()("port", po::value<int>()->default_value(0)->value_name("N"),
                    "port of the page; 0: any free one")(
      "author", po::value<std::string>()->value_name("NAME"), "author of the edits; default: $USER")(
      "help,h", "this text");
  return out;
}

std::string user_name() {
  const std::string user = core::environment("USER");
  return user.empty() ? "user" : user;
}

std::unique_ptr<studio::Studio> studio_of(core::Runtime& runtime, const std::filesystem::path& dir,
                                          const std::string& author) {
  return std::make_unique<studio::Studio>(
      dir, author, [&](const nlohmann::json& encoder, const std::vector<std::string>& texts) {
        return core::service<core::TextVectors>(runtime.registry()).embed(runtime, encoder, texts);
      });
}

int studio_command(core::Runtime& runtime, const Arguments& arguments) {
  po::options_description all = studio_flags();
  all.add_options()("dir", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("dir", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << help_of(kStudioHelp, studio_flags());
    return kDone;
  }
  const std::string dir = given["dir"].as<std::string>();
  const std::string author = given.count("author") ? given["author"].as<std::string>() : user_name();
  const int port = given["port"].as<int>();
  if (dir.empty())
    return complain(kUsage,
                    "studio: the folder of a curate job or of a run is missing; see kinora studio --help");
  if (port < 0 || port > 65535)
    return complain(kUsage, "--port: " + std::to_string(port) +
                                " is not a port; expected 1 to 65535, or 0 for a free one");
  if (author.empty()) return complain(kUsage, "--author: the name is empty");
  const auto studio = studio_of(runtime, dir, author);
  own_process();
  studio::Serving serving(port);
  std::cout << serving.address() << std::endl;  // flushed: the caller may wait for this line
  const std::string refusal = studio->refusal();
  std::cerr << (refusal.empty() ? "edits are by " + author : refusal) << "; Ctrl-C ends the studio\n";
  serving.run(runtime, *studio, core::cancelled);
  return kInterrupted;
}

}  // namespace kinora
