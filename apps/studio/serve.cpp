#include "apps/studio/serve.hpp"

#include <cerrno>

#include "apps/studio/pictures.hpp"
#include "apps/web/guard.hpp"
#include "apps/web/json_answer.hpp"
#include "apps/web/pages.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;
using web::Answer;
using web::answer_or_error;
using web::json_answer;
using web::Request;

constexpr size_t kPicturesBytes = 64 << 20;

Answer send_file(const Request& request, const Media& media) {
  auto out = web::file_answer(request, media.path, media.type);
  return out ? std::move(*out) : json_answer(404, {{"error", "there is nothing to play"}});
}

// The studio's routes are literal paths, so a name in a request is always looked up and never joined to a
// path.
class Server {
 public:
  Server(core::Runtime& runtime, Studio& studio, std::unique_ptr<web::Server> http)
      : studio_(studio), pictures_(runtime, kPicturesBytes), own_(std::move(http)), http_(*own_) {
    http_.set_headers(web::page_headers());
    queries();
    changes();
    files();
  }

  void run(const web::Guard& guard, const std::function<bool()>& stopped) {
    web::guard_with(http_, guard);
    http_.run(stopped);
  }

 private:
  void query(const char* path, json (Studio::*f)(const Parameters&)) {
    http_.get(path, [this, f](const Request& request) {
      return answer_or_error([&] { return json_answer(200, (studio_.*f)(request.parameters)); });
    });
  }

  void change(const char* path, json (Studio::*f)(const json&)) {
    http_.post(path, [this, f](const Request& request) {
      return answer_or_error(
          [&] { return json_answer(200, (studio_.*f)(json::parse(request.body, nullptr, false))); });
    });
  }

  void queries() {
    http_.get("/api/state", [this](const Request&) {
      return answer_or_error([&] { return json_answer(200, studio_.state()); });
    });
    query("/api/clips", &Studio::clips);
    query("/api/ids", &Studio::ids);
    query("/api/where", &Studio::where);
    query("/api/histograms", &Studio::histograms);
    query("/api/bound", &Studio::bound);
    query("/api/map", &Studio::map);
    query("/api/place", &Studio::place);
    query("/api/next", &Studio::next);
    query("/api/clip", &Studio::clip);
    query("/api/shots", &Studio::shots);
  }

  void changes() {
    change("/api/edit", &Studio::edit);
    change("/api/copies", &Studio::copies);
    change("/api/view", &Studio::save_view);
    http_.post("/api/undo", [this](const Request&) {
      return answer_or_error([&] { return json_answer(200, studio_.undo()); });
    });
    http_.post("/api/redo", [this](const Request&) {
      return answer_or_error([&] { return json_answer(200, studio_.redo()); });
    });
  }

  void files() {
    http_.get("/video", [this](const Request& request) {
      return answer_or_error([&] {
        Answer out = send_file(request, studio_.media(request.parameter("id")));
        if (out.status < 300) out.headers.emplace_back("Cache-Control", "no-cache");
        return out;
      });
    });
    http_.get("/picture",
              [this](const Request& request) { return answer_or_error([&] { return picture(request); }); });
    web::serve_pages(http_, page_files());
  }

  Answer picture(const Request& request) {
    const PictureSource source = studio_.picture(request.parameter("id"));
    const std::string tag = entity_tag(source);
    Answer out{.status = 304};
    if (request.header("if-none-match") != tag) {
      if (source.is_preview) {
        out = send_file(request, {source.path, false, "image/webp", {}});
      } else if (const auto made = pictures_.get(source)) {
        out = {.type = "image/jpeg", .body = *made};
      } else {
        return json_answer(404, {{"error", "the clip has no picture"}});
      }
    }
    if (out.status == 404) return out;
    out.headers.emplace_back("Cache-Control", "private, no-cache");
    out.headers.emplace_back("ETag", tag);
    return out;
  }

  Studio& studio_;
  Pictures pictures_;
  std::unique_ptr<web::Server> own_;  // last: its handlers end before what they use
  web::Server& http_;
};

std::unique_ptr<web::Server> bound(int port, int& got) {
  auto out = std::make_unique<web::Server>();
  got = out->bind(port);
  if (got == 0) throw Error(KINORA_ERROR_INVALID, web::port_problem(port, errno));
  return out;
}

}  // namespace

Serving::Serving(int port)
    : http_(bound(port, port)), guard_("studio", web::new_token(), port), address_(guard_.address()) {}

void Serving::run(core::Runtime& runtime, Studio& studio, const std::function<bool()>& stopped) {
  Server(runtime, studio, std::move(http_)).run(guard_, stopped);
}

}  // namespace kinora::studio
