// Keeps a live session's messages for its viewer's connection, or for the next one after that is lost.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/serve/videos.hpp"
#include "apps/web/socket.hpp"

namespace kinora::serve {

// A message as its viewer gets it.
inline std::string dumped(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// [any-thread] Messages with bytes are numbered from 0. The newest ones are kept for a viewer that comes back.
class LiveRelay {
 public:
  LiveRelay(Videos& videos, std::shared_ptr<web::Socket> socket)
      : videos_(videos), socket_(std::move(socket)) {}
  LiveRelay(const LiveRelay&) = delete;
  LiveRelay& operator=(const LiveRelay&) = delete;

  // Passes on what the model's process says. [one thread]
  void tell(const std::string& id, const nlohmann::json& message);
  // From now on this connection is the viewer's, and one that still was loses it. It gets the messages from number
  // `next` on again. Throws ApiError if they are no longer kept, or are not made yet.
  void attach(const std::string& id, std::shared_ptr<web::Socket> socket, int64_t next);
  // The connection is over. False: it was not the viewer's any more.
  bool detach(const std::shared_ptr<web::Socket>& socket);
  // Throws ApiError if the viewer has another connection now.
  void require_viewer(const std::shared_ptr<web::Socket>& socket) const;
  // Throws ApiError for an event that was sent before.
  void note_event(const std::string& event);
  // Held while a connection comes or goes, together with what the session is told of that.
  std::mutex& coming_or_going() { return coming_or_going_; }

 private:
  struct Kept {
    nlohmann::json about;
    std::string bytes;
  };
  // With the lock, as those that follow.
  void say(const char* type, const std::string& id, nlohmann::json of);
  void keep(nlohmann::json about, std::string bytes);
  void send(const std::string& id, int64_t number);
  void send_end(const std::string& id);

  Videos& videos_;
  std::mutex coming_or_going_;
  mutable std::mutex mutex_;             // of the following
  std::shared_ptr<web::Socket> socket_;  // null: it is lost
  nlohmann::json start_, end_;           // null: not told yet
  std::deque<Kept> kept_;
  int64_t first_ = 0;  // number of the oldest kept message
  size_t bytes_ = 0;   // of all that are kept
  std::set<std::string> events_;
};

// [any-thread] The sessions of a server that can be resumed.
class LiveRelays {
 public:
  void add(const std::string& id, const std::shared_ptr<LiveRelay>& relay);
  // Throws ApiError if there is none.
  std::shared_ptr<LiveRelay> find(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<LiveRelay>> relays_;  // each lives as long as its session's lease
};

}  // namespace kinora::serve
