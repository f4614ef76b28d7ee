// kinora serve FILE.toml | --pipeline FOLDER
#include <iostream>

#include <arpa/inet.h>
#include <boost/program_options.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/command/surroundings.hpp"
#include "apps/kinora/command.hpp"
#include "apps/serve/access.hpp"
#include "apps/serve/serve.hpp"
#include "apps/web/guard.hpp"
#include "core/base/cancel.hpp"
#include "core/base/paths.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr const char* kServeHelp = R"(usage: kinora serve --pipeline FOLDER [options]
       kinora serve FILE.toml [options]

Makes videos for programs that ask over HTTP, by OpenAI's Videos API: POST /v1/videos, then GET
/v1/videos/ID and /v1/videos/ID/content. FOLDER is a published pipeline, or a run file with a generate
job; FILE.toml names several models and limits, see docs/serve.md. Prints "serving URL" when requests are
answered. Every request needs a token, as Authorization: Bearer TOKEN: KINORA_SERVE_TOKEN or the file
sets it, else a new one is printed; KINORA_SERVE_READ_TOKEN is another that only reads. What was accepted
is there after a restart. The page for browsers is at the address that is printed on stderr.

examples:
  kinora serve --pipeline Wan2.1-T2V-1.3B-Diffusers
  curl -H "Authorization: Bearer TOKEN" -F prompt="a boat at sea" http://127.0.0.1:8000/v1/videos
  curl -H "Authorization: Bearer TOKEN" http://127.0.0.1:8000/v1/videos/ID/content?live=1 | ffplay -

)";

}  // namespace

Flags serve_flags() {
  po::options_description out("options");
  out.add_options()("pipeline", po::value<std::string>()->value_name("FOLDER"),
                    "folder of a published pipeline, or a run file with a generate job, to serve")(
      "host", po::value<std::string>()->value_name("ADDRESS"),
      "IPv4 address to listen on; default: 127.0.0.1, this machine alone")(
      "port", po::value<int>()->value_name("N"), "port; 0: any free one; default: 8000")(
      "folder", po::value<std::string>()->value_name("DIR"),
      "folder of the videos and of their list; default: runs/serve")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("a=v"),
      "with --pipeline: override an option of its generate job; of a run file: JOB.OPTION=VALUE")(
      "json", "print the first line as JSON: url, and token if it is new")("help,h", "this text");
  return out;
}

namespace {

// The settings that the command line asks for.
serve::Settings settings_of(const po::variables_map& given) {
  serve::Settings out;
  if (given.count("file")) {
    out = serve::read_settings(given["file"].as<std::string>());
  } else {
    const fs::path pipeline =
        (fs::absolute(given["pipeline"].as<std::string>()) / "").lexically_normal().parent_path();
    if (!fs::exists(pipeline))
      throw Error(KINORA_ERROR_NOT_FOUND,
                  "--pipeline " + pipeline.string() + ": there is no such folder or file");
    out.models.push_back({.name = pipeline.stem().string(), .pipeline = pipeline});
    if (fs::is_directory(pipeline)) out.models[0].name = pipeline.filename().string();
    out.folder = fs::absolute(out.folder);
    if (given.count("set")) out.models[0].set = given["set"].as<std::vector<std::string>>();
  }
  if (given.count("host")) out.host = given["host"].as<std::string>();
  if (in_addr none{}; inet_pton(AF_INET, out.host.c_str(), &none) != 1)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("host: '{}' is not an IPv4 address; expected 127.0.0.1 for this machine alone, 0.0.0.0 "
                    "for every network, or the address of one",
                    out.host));
  if (given.count("port")) out.port = given["port"].as<int>();
  if (given.count("folder")) out.folder = fs::absolute(given["folder"].as<std::string>());
  if (const auto token = core::environment("KINORA_SERVE_TOKEN"); !token.empty()) {
    serve::require_token(token, "KINORA_SERVE_TOKEN");
    out.token = token;
  }
  if (const auto token = core::environment("KINORA_SERVE_READ_TOKEN"); !token.empty()) {
    serve::require_token(token, "KINORA_SERVE_READ_TOKEN");
    out.read_token = token;
  }
  if (!out.token.empty() && out.read_token == out.token)
    throw Error(KINORA_ERROR_INVALID,
                "the token that only reads is the server's token; give another KINORA_SERVE_READ_TOKEN, or "
                "read_token_file");
  return out;
}

// Prints what the caller needs once the server answers requests. is_new: the server made the token.
void tell_ready(const serve::Settings& settings, const std::string& url, bool is_new, bool as_json) {
  if (as_json) {
    std::cout << nlohmann::json{{"url", url}, {"token", settings.token}}.dump() << std::endl;
  } else {
    std::cout << "serving " << url << (is_new ? "\ntoken " + settings.token : "") << std::endl;
  }
  std::cerr << "the page for browsers is "
            << (is_new ? serve::page_address(url, settings.token) : url + "?t=TOKEN")
            << (settings.read_token.empty() ? "" : "\nthe page that only shows is " + url + "?t=READ_TOKEN")
            << "\nCtrl-C ends the server"
            << (settings.drain > 0 ? fmt::format(", at the end of its video or after {} s", settings.drain)
                                   : "")
            << "; videos that wait are made after its next start\n";
}

std::string usage_problem(const po::variables_map& given) {
  if (given.count("file") && given.count("pipeline"))
    return "a file and --pipeline are both given; the file names its own models, so leave one of them out";
  if (!given.count("file") && !given.count("pipeline"))
    return "a model is missing; kinora serve --pipeline FOLDER, or kinora serve FILE.toml";
  if (given.count("set") && !given.count("pipeline"))
    return "--set is for --pipeline; a file has `set` for each model";
  const int port = given.count("port") ? given["port"].as<int>() : 0;
  if (port < 0 || port > 65535)
    return fmt::format("--port: {} is not a port; expected 1 to 65535, or 0 for a free one", port);
  return "";
}

}  // namespace

int serve_command(core::Runtime&, const Arguments& arguments) {
  po::options_description all = serve_flags();
  all.add_options()("file", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("file", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << help_of(kServeHelp, serve_flags());
    return kDone;
  }
  if (const std::string wrong = usage_problem(given); !wrong.empty())
    return complain(kUsage, "serve: " + wrong);
  serve::Settings settings = settings_of(given);
  const bool is_new = settings.token.empty();
  if (is_new) settings.token = web::new_token();
  own_process();
  if (!settings.host.starts_with("127."))
    std::cerr
        << "opens " << settings.host << ":" << settings.port
        << " to the network: whoever reaches it and has the token makes videos and sees all of them; the "
           "connections are not encrypted, so put a proxy with TLS before it\n";
  std::cerr << "loading " << settings.models.size() << (settings.models.size() == 1 ? " model" : " models")
            << "\n";
  serve::serve(
      {.settings = settings,
       .program = fs::read_symlink("/proc/self/exe"),
       .ready = [&](const std::string& url) { tell_ready(settings, url, is_new, given.count("json") > 0); },
       .stopped = core::cancelled});
  return kInterrupted;
}

}  // namespace kinora
