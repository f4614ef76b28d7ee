#include "apps/serve/live.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/fields.hpp"
#include "apps/serve/live_relay.hpp"
#include "core/base/facts.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;

constexpr size_t kLongestId = 200;  // bytes of an event's
constexpr double kMostTransition = 1000;
constexpr int64_t kBlend = 4;  // chunks, as of a shot

json error_message(const ApiError& e, const std::string& event) {
  json out{{"type", "error"}, {"code", e.code.empty() ? "invalid_value" : e.code}, {"message", e.what()}};
  if (!e.param.empty()) out["param"] = e.param;
  if (!event.empty()) out["event_id"] = event;
  return out;
}

// The shot that an interaction begins, without its length.
json shot_of(const json& message) {
  const auto refuse = [](const char* param, const std::string& expected) {
    throw ApiError(400, fmt::format("{}: expected {}", param, expected), "invalid_value", param);
  };
  const json transition = message.value("transition_chunks", json(0U)),
             event = message.value("event", json());
  if (!transition.is_number_unsigned() || transition.get<double>() > kMostTransition)
    refuse("transition_chunks", fmt::format("a whole number up to {}", kMostTransition));
  if (!event.is_object() || !event.contains("prompt"))
    refuse("event", "{\"prompt\": TEXT}, and cut and switch as shots have them");
  const int64_t chunks = transition;
  const json text{{"prompt", event.at("prompt")}},
      cut = event.value("cut", json(false)), how = event.value("switch", json(chunks > 1 ? "blend" : "none"));
  constexpr std::array kSwitches{"none", "recache", "blend", "flush"};
  for (const auto& [name, _] : event.items())
    if (name != "prompt" && name != "cut" && name != "switch")
      refuse("event", "prompt, cut and switch, not " + name);
  if (!cut.is_boolean()) refuse("event", "cut = true or false");
  if (std::ranges::find(kSwitches, how) == kSwitches.end())
    refuse("event", "switch = none, recache, blend or flush");
  if (chunks > 1 && how != "blend") refuse("transition_chunks", "switch = blend, or at most 1");
  json out{{"prompt", fields_of(text).fields.at("prompt")}, {"cut", cut}};
  if (how != "none") out["switch"] = how;
  if (how == "blend") out["blend"] = chunks > 0 ? chunks : kBlend;
  return out;
}

class LiveSession : public web::SocketHandler {
 public:
  LiveSession(Videos& videos, std::shared_ptr<LiveRelays> relays, std::shared_ptr<web::Socket> socket)
      : videos_(videos), relays_(std::move(relays)), socket_(std::move(socket)) {}

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
    if (!relay_) return;
    const std::scoped_lock lock(relay_->coming_or_going());
    if (relay_->detach(socket_)) videos_.leave_live(id_);
  }

 private:
  void refuse(const ApiError& e, const json& message) {
    socket_->text(dumped(error_message(e, message.is_object() ? core::text_in(message, "event_id") : "")));
    if (!relay_) socket_->close("no session began");
  }
  void say(json message) { socket_->text(dumped(message)); }

  void obey(const std::string& type, const json& message) {
    if (type == "session.ping") return say({{"type", "session.pong"}});
    if (type == "session.start") return start(message);
    if (type == "session.resume" && !relay_) return resume(message);
    if (!relay_) throw ApiError(409, "begin with session.start", "not_started", "type");
    relay_->require_viewer(socket_);
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
    if (relay_) throw ApiError(409, "this session has begun; open another connection", "started");
    message.erase("type");
    if (message.contains("shots"))
      throw ApiError(400, "shots: a live session has one prompt, which session.interaction changes",
                     "invalid_value", "shots");
    const auto relay = std::make_shared<LiveRelay>(videos_, socket_);
    const auto tell = [relay](const std::string& id, const json& of) { relay->tell(id, of); };
    const auto queued = [&](const std::string& id, int64_t ahead) {
      relays_->add(id, relay);
      say({{"type", "session.queued"}, {"session_id", id}, {"ahead", ahead}});
    };
    if (message.contains("branch")) {
      const json branch = message.at("branch"),
                 chunk = branch.is_object() ? branch.value("chunk", json()) : json();
      if (message.size() != 1 || !chunk.is_number_unsigned() || core::text_in(branch, "session").empty())
        throw ApiError(
            400,
            "branch: expected {\"session\": ID, \"chunk\": NUMBER} alone; it has that session's settings",
            "invalid_value", "branch");
      id_ = videos_.branch_live(core::text_in(branch, "session"), chunk, tell, queued);
    } else {
      id_ = videos_.begin_live(fields_of(message).fields, tell, queued);
    }
    relay_ = relay;
  }

  void resume(const json& message) {
    const json next = message.value("next_sequence", json(0U));
    if (!next.is_number_unsigned())
      throw ApiError(400, "next_sequence: expected the number of the first message that is missing",
                     "invalid_value", "next_sequence");
    const std::string id = core::text_in(message, "session_id");
    const auto relay = relays_->find(id);
    const std::scoped_lock lock(relay->coming_or_going());
    relay->attach(id, socket_, next);
    videos_.resume_live(id, next);
    relay_ = relay;
    id_ = id;
  }

  void interact(const json& message) {
    const std::string event = core::text_in(message, "event_id");
    if (event.empty() || event.size() > kLongestId)
      throw ApiError(400, fmt::format("event_id: expected a text of at most {} bytes", kLongestId),
                     "invalid_value", "event_id");
    json shot = shot_of(message);
    relay_->note_event(event);
    say({{"type", "session.interaction.queued"},
         {"event_id", event},
         {"transition_chunks", shot.value("blend", int64_t{1})}});
    shot["event_id"] = event;
    videos_.steer(id_, std::move(shot));
  }

  Videos& videos_;
  const std::shared_ptr<LiveRelays> relays_;
  const std::shared_ptr<web::Socket> socket_;
  std::shared_ptr<LiveRelay> relay_;  // of the session; null: none has begun
  std::string id_;
};

}  // namespace

void serve_live(web::Server& http, Videos& videos) {
  http.socket("/v1/realtime/video", [&videos, relays = std::make_shared<LiveRelays>()](
                                        const web::Request&, std::shared_ptr<web::Socket> socket) {
    return std::make_shared<LiveSession>(videos, relays, std::move(socket));
  });
}

}  // namespace kinora::serve
