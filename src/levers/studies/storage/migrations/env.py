"""Run by Alembic: migrate over the connection that was handed in."""

from alembic import context

from levers.studies.storage.schema import metadata

given = context.config.attributes
context.configure(
    connection=given["connection"], target_metadata=metadata, version_table=given["version_table"], render_as_batch=True
)
context.run_migrations()
