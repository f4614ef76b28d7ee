#include "apps/serve/live.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/fields.hpp"
#include "core/base/facts.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;

constexpr size_t kLongestId = 200, kMostIds = 10'000;  // of a session's events
constexpr double kMostTransition = 1000;

std::string dumped(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

json error_message(const ApiError& e, const std::string& event) {
  json out{{"type", "error"}, {"code", e.code.empty() ? "invalid_value" : e.code}, {"message", e.what()}};
  if (!e.param.empty()) out["param"] = e.param;
  if (!event.empty()) out["event_id"] = event;
  return out;
}

// The file's bytes; the file ends.
std::string taken(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string out(std::istreambuf_iterator<char>(in), {});
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return out;
}

// Passes what the model's process says of a session on to its viewer.
class Relay {
 public:
  Relay(Videos& videos, std::shared_ptr<web::Socket> socket) : videos_(videos), socket_(std::move(socket)) {}

  void operator()(const std::string& id, const json& message) {
    const auto say = [&](const char* type, json of) {
      of.update({{"type", type}, {"session_id", id}});
      socket_->text(dumped(of));
    };
    if (message.contains("start")) return say("video.start", message.at("start"));
    if (message.contains("chunk")) {
      std::string bytes = taken(core::text_in(message, "file"));
      json about = message.at("chunk");
      about["byte_length"] = bytes.size();
      about.update({{"type", "video.chunk_metadata"}, {"session_id", id}});
      const int64_t number = message.at("number");
      socket_->binary(dumped(about), std::move(bytes), [this_videos = &videos_, id, number] {
        this_videos->steer(id, {{"taken", number}});
      });
    } else if (message.contains("error")) {
      say("error", message.at("error"));
    } else if (message.contains("failed")) {
      say("error", {{"code", "generation_failed"}, {"message", core::text_in(message, "failed")}});
      socket_->close("failed");
    } else if (message.contains("done")) {
      say("session.done", message.at("done"));
      socket_->close("done");
    }
  }

 private:
  Videos& videos_;
  const std::shared_ptr<web::Socket> socket_;
};

class LiveSession : public web::SocketHandler {
 public:
  LiveSession(Videos& videos, std::shared_ptr<web::Socket> socket)
      : videos_(videos), socket_(std::move(socket)) {}

  void take(const std::string& text) override {
    json message;
    try {
      message = core::parse_facts(text);
      if (!message.is_object()) throw ApiError(400, "expected a JSON object", "invalid_json");
      obey(core::text_in(message, "type"), message);
    } catch (const ApiError& e) {
      refuse(e, message);
    } catch (const std::exception& e) {
      refuse(ApiError(400, e.what(), "invalid_json"), message);
    }
  }
  void closed() override {
    if (!id_.empty()) videos_.end_live(id_);
  }

 private:
  void refuse(const ApiError& e, const json& message) {
    socket_->text(dumped(error_message(e, message.is_object() ? core::text_in(message, "event_id") : "")));
    if (id_.empty()) socket_->close("no session began");
  }
  void say(json message) { socket_->text(dumped(message)); }

  void obey(const std::string& type, const json& message) {
    if (type == "session.ping") return say({{"type", "session.pong"}});
    if (type == "session.start") return start(message);
    if (id_.empty()) throw ApiError(409, "begin with session.start", "not_started", "type");
    if (type == "session.interaction") return interact(message);
    if (type == "session.pause" || type == "session.resume")
      return videos_.steer(id_, {{"pause", type == "session.pause"}});
    if (type == "session.rewind") {
      const json chunk = message.value("chunk", json());
      if (!chunk.is_number_unsigned())
        throw ApiError(400, "chunk: expected the number of a chunk, from 0", "invalid_value", "chunk");
      return videos_.steer(id_, {{"rewind", chunk}});
    }
    if (type == "session.stop") return videos_.stop_live(id_);
    throw ApiError(400, "there is no message of type '" + type + "'", "invalid_value", "type");
  }

  void start(json message) {
    if (!id_.empty()) throw ApiError(409, "this session has begun; open another connection", "started");
    message.erase("type");
    if (message.contains("shots"))
      throw ApiError(400, "shots: a live session has one prompt, which session.interaction changes",
                     "invalid_value", "shots");
    const json fields = fields_of(message).fields;
    id_ = videos_.begin_live(fields, Relay(videos_, socket_), [this](const std::string& id, int64_t ahead) {
      say({{"type", "session.queued"}, {"session_id", id}, {"ahead", ahead}});
    });
  }

  void interact(const json& message) {
    const std::string event = core::text_in(message, "event_id");
    if (event.empty() || event.size() > kLongestId)
      throw ApiError(400, fmt::format("event_id: expected a text of at most {} bytes", kLongestId),
                     "invalid_value", "event_id");
    const json transition = message.value("transition_chunks", json(0));
    if (!transition.is_number_unsigned() || transition.get<double>() > kMostTransition)
      throw ApiError(400, "transition_chunks: expected a whole number", "invalid_value", "transition_chunks");
    const json what = message.value("event", json());
    if (!what.is_object() || what.size() != 1 || !what.contains("prompt"))
      throw ApiError(400, "event: expected {\"prompt\": TEXT}", "invalid_value", "event");
    const json prompt = fields_of(what).fields.at("prompt");
    if (events_.contains(event))
      throw ApiError(409, "event '" + event + "' was sent before", "event_id_conflict", "event_id");
    if (events_.size() >= kMostIds)
      throw ApiError(429, fmt::format("a session takes {} events", kMostIds), "too_many_events");
    events_.insert(event);
    say({{"type", "session.interaction.queued"}, {"event_id", event}, {"transition_chunks", 1}});
    videos_.steer(id_, {{"prompt", prompt}, {"event_id", event}});
  }

  Videos& videos_;
  const std::shared_ptr<web::Socket> socket_;
  std::string id_;  // of the session; "": none has begun
  std::set<std::string> events_;
};

}  // namespace

void serve_live(web::Server& http, Videos& videos) {
  http.socket("/v1/realtime/video", [&videos](const web::Request&, std::shared_ptr<web::Socket> socket) {
    return std::make_shared<LiveSession>(videos, std::move(socket));
  });
}

}  // namespace kinora::serve
