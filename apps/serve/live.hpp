// Live sessions over a WebSocket: a video is shown while it is made, and its viewer changes it meanwhile.
#pragma once
#include "apps/serve/videos.hpp"
#include "apps/web/server.hpp"

namespace kinora::serve {

// A connection to /v1/realtime/video begins a session, or resumes one whose connection was lost. Messages are JSON
// texts with a `type`. docs/live.md has the members of each.
//
//   of the client   session.start, session.interaction, session.pause, session.resume, session.rewind, session.stop,
//                   session.ping
//   of the server   session.queued, session.resumed, video.start, video.chunk_metadata and after it one binary message,
//                   session.interaction.queued, session.done, session.pong, error
//
// The binary messages in their order are a fragmented MP4.
void serve_live(web::Server& http, Videos& videos);

}  // namespace kinora::serve
