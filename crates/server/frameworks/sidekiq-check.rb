# Jobs of Sidekiq: one that runs, one that fails and is tried again, and one that is scheduled.
require 'sidekiq'
require 'sidekiq/api'
require 'sidekiq/cli'

URL = "redis://127.0.0.1:#{ARGV[0]}".freeze
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server { |config| config.redis = { url: URL } }

# Adds to a counter, or fails.
class Add
  include Sidekiq::Worker
  sidekiq_options retry: 3

  def perform(number)
    raise 'on purpose' if number.negative?

    Sidekiq.redis { |connection| connection.incrby('sum', number) }
  end
end

def wait_for(what)
  200.times do
    return if yield
    sleep 0.3
  end
  raise "#{what} never happens"
end

Add.perform_async(2)
Add.perform_async(-1)
Add.perform_in(1, 5)
Sidekiq::Client.push_bulk('class' => Add, 'args' => (1..100).map { |number| [number] })
raise 'queue' unless Sidekiq::Queue.new.size == 102

options = Sidekiq.options.merge(queues: ['default'], concurrency: 2, poll_interval_average: 1, tag: 'check')
require 'sidekiq/launcher'
Sidekiq.logger.level = Logger::FATAL
launcher = Sidekiq::Launcher.new(options)
launcher.run
wait_for('the sum') { Sidekiq.redis { |connection| connection.get('sum') } == '5057' }
wait_for('a retry') { Sidekiq::RetrySet.new.size == 1 }
stats = Sidekiq::Stats.new
raise 'stats' unless stats.failed >= 1
launcher.stop
puts 'jobs, 100 at once, one that is scheduled, and one that is tried again'
