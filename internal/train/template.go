package train

import _ "embed"

// chatTemplate is ChatML with tools as docs/data.md, section 2, writes them: what is trained on is what is served.
//
//go:embed chat.jinja
var chatTemplate string
