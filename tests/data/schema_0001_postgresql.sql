CREATE FUNCTION toolroll_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% only grows: its rows are neither changed nor deleted', TG_TABLE_NAME;
END $$

-- next
CREATE TABLE tools (
	tool_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	plugin TEXT COLLATE "C" NOT NULL,
	toolkit TEXT COLLATE "C" NOT NULL,
	display_name TEXT COLLATE "C" NOT NULL,
	description TEXT COLLATE "C" NOT NULL,
	parameters JSON,
	returns JSON,
	annotations JSON,
	icons JSON NOT NULL,
	meta JSON,
	execution JSON,
	summary TEXT COLLATE "C" NOT NULL,
	when_to_use TEXT COLLATE "C" NOT NULL,
	limitations TEXT COLLATE "C" NOT NULL,
	tags JSON NOT NULL,
	examples JSON NOT NULL,
	execution_type TEXT COLLATE "C" NOT NULL,
	execution_config JSON,
	semantic_version TEXT COLLATE "C" NOT NULL,
	status TEXT COLLATE "C" NOT NULL,
	public BOOLEAN NOT NULL,
	pinned BOOLEAN NOT NULL,
	pin_weight INTEGER NOT NULL,
	interchangeable TEXT COLLATE "C" NOT NULL,
	content_hash TEXT COLLATE "C" NOT NULL,
	source_hash TEXT COLLATE "C",
	review TEXT COLLATE "C" NOT NULL,
	approved_version INTEGER,
	served_version INTEGER,
	rejected_hash TEXT COLLATE "C",
	flags JSON NOT NULL,
	version INTEGER NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_by TEXT COLLATE "C" NOT NULL,
	deleted_at TIMESTAMP WITH TIME ZONE,
	revision BIGINT NOT NULL,
	checksum TEXT COLLATE "C" NOT NULL,
	CONSTRAINT pk_tools PRIMARY KEY (tool_id)
)

-- next
CREATE INDEX ix_tools_plugin ON tools (plugin)

-- next
CREATE UNIQUE INDEX uq_tools_org_name_alive ON tools (org, name) WHERE deleted_at IS NULL

-- next
CREATE INDEX ix_tools_org_revision ON tools (org, revision)

-- next
CREATE TABLE toolkits (
	toolkit_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	plugin TEXT COLLATE "C" NOT NULL,
	description TEXT COLLATE "C" NOT NULL,
	parent TEXT COLLATE "C",
	settings_keys JSON NOT NULL,
	base BOOLEAN NOT NULL,
	tier TEXT COLLATE "C",
	keywords JSON NOT NULL,
	patterns JSON NOT NULL,
	members JSON NOT NULL,
	version INTEGER NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_by TEXT COLLATE "C" NOT NULL,
	deleted_at TIMESTAMP WITH TIME ZONE,
	revision BIGINT NOT NULL,
	checksum TEXT COLLATE "C" NOT NULL,
	CONSTRAINT pk_toolkits PRIMARY KEY (toolkit_id)
)

-- next
CREATE INDEX ix_toolkits_org_revision ON toolkits (org, revision)

-- next
CREATE UNIQUE INDEX uq_toolkits_org_name_alive ON toolkits (org, name) WHERE deleted_at IS NULL

-- next
CREATE TABLE page_mappings (
	page_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	pattern TEXT COLLATE "C" NOT NULL,
	toolkits JSON NOT NULL,
	priority INTEGER NOT NULL,
	plugin TEXT COLLATE "C" NOT NULL,
	version INTEGER NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_by TEXT COLLATE "C" NOT NULL,
	deleted_at TIMESTAMP WITH TIME ZONE,
	revision BIGINT NOT NULL,
	checksum TEXT COLLATE "C" NOT NULL,
	CONSTRAINT pk_page_mappings PRIMARY KEY (page_id)
)

-- next
CREATE INDEX ix_page_mappings_org_revision ON page_mappings (org, revision)

-- next
CREATE TABLE visibility_rules (
	rule_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	effect TEXT COLLATE "C" NOT NULL,
	kind TEXT COLLATE "C" NOT NULL,
	condition JSON NOT NULL,
	tool TEXT COLLATE "C" NOT NULL,
	toolkit TEXT COLLATE "C" NOT NULL,
	priority INTEGER NOT NULL,
	active BOOLEAN NOT NULL,
	version INTEGER NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_by TEXT COLLATE "C" NOT NULL,
	deleted_at TIMESTAMP WITH TIME ZONE,
	revision BIGINT NOT NULL,
	checksum TEXT COLLATE "C" NOT NULL,
	CONSTRAINT pk_visibility_rules PRIMARY KEY (rule_id)
)

-- next
CREATE INDEX ix_visibility_rules_org_revision ON visibility_rules (org, revision)

-- next
CREATE UNIQUE INDEX uq_visibility_rules_org_name_alive ON visibility_rules (org, name) WHERE deleted_at IS NULL

-- next
CREATE TABLE plugins (
	org TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	version TEXT COLLATE "C" NOT NULL,
	payload_hash TEXT COLLATE "C" NOT NULL,
	review TEXT COLLATE "C" NOT NULL,
	while_waiting TEXT COLLATE "C" NOT NULL,
	tools INTEGER NOT NULL,
	synced_at TIMESTAMP WITH TIME ZONE NOT NULL,
	synced_by TEXT COLLATE "C" NOT NULL,
	revision BIGINT NOT NULL,
	CONSTRAINT pk_plugins PRIMARY KEY (org, name)
)

-- next
CREATE TABLE settings (
	org TEXT COLLATE "C" NOT NULL,
	key TEXT COLLATE "C" NOT NULL,
	is_set BOOLEAN NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_by TEXT COLLATE "C" NOT NULL,
	revision BIGINT NOT NULL,
	CONSTRAINT pk_settings PRIMARY KEY (org, key)
)

-- next
CREATE TABLE embeddings (
	identity TEXT COLLATE "C" NOT NULL,
	content_hash TEXT COLLATE "C" NOT NULL,
	vector vector NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	CONSTRAINT pk_embeddings PRIMARY KEY (identity, content_hash)
)

-- next
CREATE TABLE logged_tools (
	number BIGSERIAL NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	arm BIGINT NOT NULL,
	intent BIGINT NOT NULL,
	tool_group BIGINT NOT NULL,
	stamp BIGINT NOT NULL,
	CONSTRAINT pk_logged_tools PRIMARY KEY (number),
	CONSTRAINT uq_logged_tools_intent_name_arm_tool_group UNIQUE (intent, name, arm, tool_group)
)

-- next
CREATE TABLE selection_events (
	event_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	at TIMESTAMP WITH TIME ZONE NOT NULL,
	reporter TEXT COLLATE "C" NOT NULL,
	session TEXT COLLATE "C" NOT NULL,
	message TEXT COLLATE "C" NOT NULL,
	message_form TEXT COLLATE "C" NOT NULL,
	page TEXT COLLATE "C" NOT NULL,
	tier TEXT COLLATE "C" NOT NULL,
	category TEXT COLLATE "C" NOT NULL,
	propensity_error DOUBLE PRECISION,
	selected JSON NOT NULL,
	profile TEXT COLLATE "C" NOT NULL,
	experiment TEXT COLLATE "C" NOT NULL,
	variant TEXT COLLATE "C" NOT NULL,
	seed BIGINT NOT NULL,
	latency_us DOUBLE PRECISION NOT NULL,
	tokens_selected INTEGER NOT NULL,
	tokens_total INTEGER NOT NULL,
	confidence DOUBLE PRECISION,
	catalog_revision TEXT COLLATE "C" NOT NULL,
	registry_revision BIGINT NOT NULL,
	learned_revision BIGINT NOT NULL,
	degraded JSON NOT NULL,
	space TEXT COLLATE "C" NOT NULL,
	share DOUBLE PRECISION NOT NULL,
	details BYTEA NOT NULL,
	called JSON,
	outcome TEXT COLLATE "C",
	recorded_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT pk_selection_events PRIMARY KEY (event_id)
)

-- next
CREATE INDEX ix_selection_events_org_at ON selection_events (org, at)

-- next
CREATE INDEX ix_selection_events_at ON selection_events (at)

-- next
CREATE TABLE outcomes (
	org TEXT COLLATE "C" NOT NULL,
	seq BIGINT NOT NULL,
	event_id VARCHAR(32) COLLATE "C" NOT NULL,
	step INTEGER NOT NULL,
	at TIMESTAMP WITH TIME ZONE NOT NULL,
	received_at TIMESTAMP WITH TIME ZONE NOT NULL,
	reporter TEXT COLLATE "C" NOT NULL,
	page TEXT COLLATE "C" NOT NULL,
	tier TEXT COLLATE "C" NOT NULL,
	category TEXT COLLATE "C" NOT NULL,
	details BYTEA NOT NULL,
	closes BOOLEAN NOT NULL,
	closing_weight DOUBLE PRECISION NOT NULL,
	space TEXT COLLATE "C" NOT NULL,
	voided_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT pk_outcomes PRIMARY KEY (org, seq),
	CONSTRAINT uq_outcomes_event_id_step UNIQUE (event_id, step)
)

-- next
CREATE INDEX ix_outcomes_org_reporter ON outcomes (org, reporter)

-- next
CREATE TABLE open_events (
	event_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	closes_at TIMESTAMP WITH TIME ZONE NOT NULL,
	exposure JSON NOT NULL,
	CONSTRAINT pk_open_events PRIMARY KEY (event_id)
)

-- next
CREATE INDEX ix_open_events_closes_at ON open_events (closes_at)

-- next
CREATE TABLE learning_state (
	org TEXT COLLATE "C" NOT NULL,
	seq BIGINT NOT NULL,
	epoch BIGINT NOT NULL,
	CONSTRAINT pk_learning_state PRIMARY KEY (org)
)

-- next
CREATE TABLE learned_checkpoints (
	org TEXT COLLATE "C" NOT NULL,
	rates TEXT COLLATE "C" NOT NULL,
	seq BIGINT NOT NULL,
	epoch BIGINT NOT NULL,
	learned BYTEA NOT NULL,
	at TIMESTAMP WITH TIME ZONE NOT NULL,
	CONSTRAINT pk_learned_checkpoints PRIMARY KEY (org, rates, seq)
)

-- next
CREATE TABLE arm_statistics (
	org TEXT COLLATE "C" NOT NULL,
	tool TEXT COLLATE "C" NOT NULL,
	level TEXT COLLATE "C" NOT NULL,
	context_key TEXT COLLATE "C" NOT NULL,
	successes DOUBLE PRECISION NOT NULL,
	failures DOUBLE PRECISION NOT NULL,
	calls DOUBLE PRECISION NOT NULL,
	expected DOUBLE PRECISION NOT NULL,
	shown BIGINT NOT NULL,
	called BIGINT NOT NULL,
	succeeded BIGINT NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	CONSTRAINT pk_arm_statistics PRIMARY KEY (org, tool, level, context_key)
)

-- next
CREATE TABLE reporter_counts (
	org TEXT COLLATE "C" NOT NULL,
	tool TEXT COLLATE "C" NOT NULL,
	reporter TEXT COLLATE "C" NOT NULL,
	day DATE NOT NULL,
	counted INTEGER NOT NULL,
	CONSTRAINT pk_reporter_counts PRIMARY KEY (org, tool, reporter, day)
)

-- next
CREATE INDEX ix_reporter_counts_day ON reporter_counts (day)

-- next
CREATE TABLE shared_priors (
	tool TEXT COLLATE "C" NOT NULL,
	successes DOUBLE PRECISION NOT NULL,
	failures DOUBLE PRECISION NOT NULL,
	calls DOUBLE PRECISION NOT NULL,
	expected DOUBLE PRECISION NOT NULL,
	organisations INTEGER NOT NULL,
	epsilon DOUBLE PRECISION NOT NULL,
	at TIMESTAMP WITH TIME ZONE NOT NULL,
	CONSTRAINT pk_shared_priors PRIMARY KEY (tool)
)

-- next
CREATE TABLE experiments (
	name TEXT COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	variants JSON NOT NULL,
	unit TEXT COLLATE "C" NOT NULL,
	salt TEXT COLLATE "C" NOT NULL,
	active BOOLEAN NOT NULL,
	begun_at TIMESTAMP WITH TIME ZONE NOT NULL,
	ended_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT pk_experiments PRIMARY KEY (name)
)

-- next
CREATE TABLE receipt_keys (
	key_id TEXT COLLATE "C" NOT NULL,
	secret BYTEA NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	retired_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT pk_receipt_keys PRIMARY KEY (key_id)
)

-- next
CREATE TABLE service_keys (
	key_id VARCHAR(32) COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	org TEXT COLLATE "C",
	roles JSON NOT NULL,
	plugin TEXT COLLATE "C" NOT NULL,
	digest BYTEA NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	created_by TEXT COLLATE "C" NOT NULL,
	expires_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT pk_service_keys PRIMARY KEY (key_id)
)

-- next
CREATE TABLE accounts (
	name TEXT COLLATE "C" NOT NULL,
	org TEXT COLLATE "C",
	roles JSON NOT NULL,
	password TEXT COLLATE "C" NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	created_by TEXT COLLATE "C" NOT NULL,
	changed_at TIMESTAMP WITH TIME ZONE NOT NULL,
	CONSTRAINT pk_accounts PRIMARY KEY (name)
)

-- next
CREATE TABLE sessions (
	org TEXT COLLATE "C" NOT NULL,
	session TEXT COLLATE "C" NOT NULL,
	turn INTEGER NOT NULL,
	record JSON NOT NULL,
	version BIGINT NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	expires_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT pk_sessions PRIMARY KEY (org, session)
)

-- next
CREATE INDEX ix_sessions_updated_at ON sessions (updated_at)

-- next
CREATE INDEX ix_sessions_expires_at ON sessions (expires_at)

-- next
CREATE TABLE changes (
	seq BIGSERIAL NOT NULL,
	revision BIGINT NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	at TIMESTAMP WITH TIME ZONE NOT NULL,
	actor TEXT COLLATE "C" NOT NULL,
	action TEXT COLLATE "C" NOT NULL,
	subject TEXT COLLATE "C" NOT NULL,
	reason TEXT COLLATE "C" NOT NULL,
	details JSON NOT NULL,
	CONSTRAINT pk_changes PRIMARY KEY (seq)
)

-- next
CREATE INDEX ix_changes_org_subject ON changes (org, subject)

-- next
CREATE INDEX ix_changes_revision ON changes (revision)

-- next
CREATE TRIGGER changes_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON changes FOR EACH STATEMENT EXECUTE FUNCTION toolroll_append_only()

-- next
CREATE TABLE registry_state (
	id INTEGER NOT NULL,
	revision BIGINT NOT NULL,
	tiers JSON NOT NULL,
	tiers_checksum TEXT COLLATE "C" NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	CONSTRAINT pk_registry_state PRIMARY KEY (id),
	CONSTRAINT ck_registry_state_one_row CHECK (id = 1)
)

-- next
CREATE TABLE tool_versions (
	tool_id VARCHAR(32) COLLATE "C" NOT NULL,
	version INTEGER NOT NULL,
	snapshot JSON NOT NULL,
	changed JSON NOT NULL,
	reason TEXT COLLATE "C" NOT NULL,
	actor TEXT COLLATE "C" NOT NULL,
	at TIMESTAMP WITH TIME ZONE NOT NULL,
	content_hash TEXT COLLATE "C" NOT NULL,
	semantic_version TEXT COLLATE "C" NOT NULL,
	revision BIGINT NOT NULL,
	CONSTRAINT pk_tool_versions PRIMARY KEY (tool_id, version),
	CONSTRAINT fk_tool_versions_tool_id FOREIGN KEY(tool_id) REFERENCES tools (tool_id)
)

-- next
CREATE TRIGGER tool_versions_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON tool_versions FOR EACH STATEMENT EXECUTE FUNCTION toolroll_append_only()

-- next
CREATE TABLE pins (
	pin_id VARCHAR(32) COLLATE "C" NOT NULL,
	org TEXT COLLATE "C" NOT NULL,
	tool_id VARCHAR(32) COLLATE "C" NOT NULL,
	pinned BOOLEAN NOT NULL,
	pin_weight INTEGER NOT NULL,
	version INTEGER NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
	updated_by TEXT COLLATE "C" NOT NULL,
	deleted_at TIMESTAMP WITH TIME ZONE,
	revision BIGINT NOT NULL,
	checksum TEXT COLLATE "C" NOT NULL,
	CONSTRAINT pk_pins PRIMARY KEY (pin_id),
	CONSTRAINT fk_pins_tool_id FOREIGN KEY(tool_id) REFERENCES tools (tool_id)
)

-- next
CREATE UNIQUE INDEX uq_pins_org_tool_id_alive ON pins (org, tool_id) WHERE deleted_at IS NULL

-- next
CREATE INDEX ix_pins_org_revision ON pins (org, revision)

-- next
CREATE TABLE toolroll_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)

-- next
INSERT INTO toolroll_version VALUES ('0001')
